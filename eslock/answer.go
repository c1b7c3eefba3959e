package eslock

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// item is the answer to an update.
type item = rest.Item[source]

// source is the part of the document in a reply. Holds are the stored holds, if the
// request wants a place.
type source struct {
	Holdfast struct {
		Answer *answerJSON
		Holds  []holdJSON
	}
}

// answerJSON is the answer of a statement. A statement that stores nothing returns the
// whole document as it read it, except that a refusal has only the first places ahead. A
// statement that stores something returns only the holds of the request, because a
// document may have thousands.
type answerJSON struct {
	Time     int64
	Token    int64 // of the hold; the last granted token if nothing was stored
	Damage   *string
	Unstored bool
	// If nothing was stored:
	Resource string
	Holds    []holdJSON
	Places   []placeJSON
	// If something was stored:
	Ends  []int64 // of the holds of the request, in order; a constant below stands for some
	Swept int
	// After a refusal, whether it stored a place or not:
	Placed   bool        // the request has a place
	Position int         // the number of fair places ahead
	Ahead    []placeJSON // the first places ahead
	// Waiters is the number of places, also after a renewal.
	Waiters int
}

const (
	gone    = -1 // the hold does not exist
	endless = -2
)

// holdJSON is one hold. Its names are the names in documents: add, never rename.
type holdJSON struct {
	LockID   string         `json:"lockId"`
	HoldID   *driver.HoldID `json:"holdId,omitempty"` // absent: a hold of an old client
	Mode     driver.Mode    `json:"mode"`
	Limit    *int           `json:"limit,omitempty"` // of a shared hold; absent: unknown
	Token    int64          `json:"token,omitempty"`
	Owner    string         `json:"owner,omitempty"`
	Host     string         `json:"host,omitempty"`
	Comment  string         `json:"comment,omitempty"`
	Created  int64          `json:"created,omitempty"`
	Renewed  int64          `json:"renewed,omitempty"`
	End      *int64         `json:"end,omitempty"` // absent: forever
	Delay    int64          `json:"delay"`
	Released bool           `json:"released,omitempty"`
}

// outcome is the outcome of an ask.
type outcome struct {
	err    error // if set, the other fields are invalid; unless it is a named error, the outcome is unknown
	stored bool  // the update has changed the document
	now    model.Time
	// record is the document, if nothing or only a place was stored. After a refusal, it
	// has only the first places ahead.
	record model.Record
	// position is the request's position in the queue, or driver.NoPlace. waiters is the
	// number of places in the queue.
	position, waiters int
	// If something was stored: whether the hold existed, its token if it was granted, and
	// its end.
	found bool
	token uint64
	end   model.Time
	swept int
}

// left returns the time until the end of the granted or renewed hold.
func (o *outcome) left() time.Duration {
	return o.end.Until(o.now)
}

// understand reads an answer without an error, and returns the outcome of each ask of an
// update. The script has checked the document. An answer in another form than the
// script's is an error.
func understand(st *statement, u *update, it *item) []outcome {
	a := it.Get.Source.Holdfast.Answer
	o := outcome{stored: it.Result == rest.Created || it.Result == rest.Updated, position: driver.NoPlace}
	why := ""
	switch {
	case it.Status != 200 && it.Status != 201:
		why = fmt.Sprintf("status %d", it.Status)
	case !o.stored && it.Result != rest.Noop:
		why = fmt.Sprintf("result %q", it.Result)
	case a == nil:
		why = "it has no answer of the script"
	case o.stored == a.Unstored:
		// Otherwise an old answer could be mistaken for the present one.
		why = "it is not the answer to this request"
	case a.Damage != nil:
		o.err = fmt.Errorf("%w: document %q: %s", driver.ErrDamaged, u.ID, *a.Damage)
	case a.Time <= 0 || a.Token < 0 || a.Token > driver.MaxToken:
		why = "no time or no token"
	case !o.stored && a.Holds == nil:
		why = "no holds"
	default:
		o.now, o.token, o.swept, o.waiters = model.Time(a.Time)*1000, uint64(a.Token), a.Swept, a.Waiters
		if a.Placed {
			o.position = a.Position
		}
		switch {
		case !o.stored:
			o.record = a.record(u.document, a.Holds)
		case a.Placed:
			o.record = a.record(u.document, it.Get.Source.Holdfast.Holds)
		}
	}
	all := slices.Repeat([]outcome{o}, len(u.of))
	if why == "" && o.err == nil && o.stored {
		why = a.ends(st, len(u.Refs), all)
	}
	if why != "" {
		err := fmt.Errorf("the answer about document %q cannot be understood: %s", u.ID, why)
		return slices.Repeat([]outcome{{err: err}}, len(u.of))
	}
	return all
}

// ends sets the ends of the holds of the request, or returns the reason why it cannot.
func (a *answerJSON) ends(st *statement, refs int, all []outcome) (why string) {
	if st == acquire {
		refs = 1
	}
	if len(a.Ends) != refs {
		return "it is about other holds than the request"
	}
	found := false
	for i, end := range a.Ends {
		switch {
		case end == gone:
			continue
		case end == endless:
			all[i].end = model.NoEnd
		case end > a.Time && end <= maxMillis:
			all[i].end = model.Time(end) * 1000
		default:
			return fmt.Sprintf("end %d", end)
		}
		all[i].found, found = true, true
	}
	switch {
	case st == release && !a.Placed:
		return ""
	case found == a.Placed, a.Placed && st != acquire:
		return fmt.Sprintf("it stored a hold: %v, and a place: %v", found, a.Placed)
	case st == acquire && a.Token == 0:
		return "no token"
	}
	return ""
}

// record returns the document in the answer.
func (a *answerJSON) record(d document, holds []holdJSON) model.Record {
	r := model.Record{Resource: d.ID, Token: uint64(a.Token), Touched: model.Time(a.Time) * 1000}
	switch {
	case d.Resource != nil:
		r.Resource = *d.Resource
	case a.Resource != "":
		r.Resource = a.Resource
	}
	for _, h := range holds {
		r.Holds = append(r.Holds, h.hold())
	}
	for _, p := range append(a.Places, a.Ahead...) { // only one of them is set
		r.Places = append(r.Places, p.place())
	}
	return r
}

func (e *holdJSON) hold() model.Hold {
	h := model.Hold{
		LockID: e.LockID, Mode: e.Mode, Limit: model.LimitOf(e.Mode, e.Limit), Token: uint64(e.Token), End: model.NoEnd,
		Details: driver.Details{Owner: e.Owner, Host: e.Host, Comment: e.Comment},
		Created: shown(e.Created), Renewed: shown(e.Renewed),
		TakeoverDelay: time.Duration(e.Delay) * time.Millisecond, Released: e.Released,
	}
	if e.HoldID != nil {
		h.HoldID = *e.HoldID
	}
	if e.End != nil {
		h.End = model.Time(*e.End) * 1000
	}
	return h
}

// placeJSON is a place in the queue. Its names are the names in documents: add, never
// rename.
type placeJSON struct {
	ID     driver.PlaceID `json:"placeId"`
	LockID string         `json:"lockId"`
	Mode   driver.Mode    `json:"mode"`
	Limit  *int           `json:"limit"` // of a shared request; absent: unknown
	Owner  string         `json:"owner"`
	Host   string         `json:"host"`
	Since  int64          `json:"since"`
	Asked  int64          `json:"asked"`
	Until  int64          `json:"until"`
	Fair   bool           `json:"fair"`
}

func (e *placeJSON) place() model.Place {
	return model.Place{
		ID: e.ID, LockID: e.LockID, Mode: e.Mode, Limit: model.LimitOf(e.Mode, e.Limit), Owner: e.Owner, Host: e.Host, Fair: e.Fair,
		Since: shown(e.Since), Asked: shown(e.Asked), Until: shown(e.Until),
	}
}

// maxMillis is later than any time that can have been stored.
const maxMillis = 100_000_000_000_000

// shown returns a time that decides nothing, 0 if it is invalid.
func shown(ms int64) model.Time {
	if ms < 0 || ms > maxMillis {
		return 0
	}
	return model.Time(ms) * 1000
}

func millis(d time.Duration) *int64 {
	if d == driver.Forever {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}
