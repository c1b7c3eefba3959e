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

// source is what a reply has of the document. Holds are the stored ones, if the request
// wants a place.
type source struct {
	Holdfast struct {
		Answer *answerJSON
		Holds  []holdJSON
	}
}

// answerJSON is the answer of a statement. A statement that stores nothing returns the
// whole document, as it understood it; but a refusal has only the first places ahead. A
// statement that stores something returns only the holds of the request, because a document
// may have thousands.
type answerJSON struct {
	Time     *int64
	Token    *int64 // of the hold; the last one, if nothing was stored
	Damage   *string
	Unstored bool
	// If nothing was stored:
	Resource string
	Holds    []holdJSON
	Places   []placeJSON
	// If something was stored:
	Ends  []int64 // of the holds of the request, in order; or one of these constants
	Swept int
	// Of a refusal, whether it stored a place or not:
	Placed   bool        // the request has a place
	Position int         // how many fair places are before it, or before the end
	Ahead    []placeJSON // the first places ahead
	// Waiters is how many places there are, also after a renewal.
	Waiters int
}

const (
	gone    = -1 // there is no such hold
	endless = -2
	// mostAhead is how many places ahead a refusal has.
	mostAhead = 4
	// maxMillis is beyond any moment that can have been stored.
	maxMillis = 100_000_000_000_000
)

// holdJSON is one hold. Its names are those of the documents: add, never rename.
type holdJSON struct {
	LockID   string         `json:"lockId"`
	HoldID   *driver.HoldID `json:"holdId,omitempty"` // absent: a hold of an old client
	Mode     *driver.Mode   `json:"mode"`
	Limit    *int           `json:"limit,omitempty"` // of a shared hold; absent: not known
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

// outcome is that of an ask.
type outcome struct {
	err     error // if set, all else is invalid, and the outcome is unknown unless the error is a named one
	missing bool  // there is no such document
	stored  bool  // the update has changed the document
	now     model.Time
	// record is the document, if nothing was stored or a place. After a refusal, it has
	// only the first places ahead.
	record model.Record
	// position is that of the request in the queue, or driver.NoPlace, and waiters how
	// many places the queue has.
	position, waiters int
	more              bool // there are more places ahead than the record has
	// If something was stored: whether the hold was there, its token if it was
	// granted, and its end.
	found bool
	token uint64
	end   model.Time
	swept int
}

// left returns the time until the end of the hold that was granted or renewed.
func (o *outcome) left() time.Duration {
	return o.end.Until(o.now)
}

// understand reads an answer without an error, and returns the outcome of each ask of
// an update. The script has looked for damage; an answer in another form than the
// script's is an error.
func understand(st *statement, u *update, it *item) []outcome {
	o, why := understandDocument(st, u, it)
	all := slices.Repeat([]outcome{o}, len(u.of))
	if o.stored && o.err == nil && why == "" {
		why = understandHolds(st, it.Get.Source.Holdfast.Answer, all)
	}
	if why != "" {
		err := fmt.Errorf("the answer about document %q cannot be understood: %s", u.ID, why)
		return slices.Repeat([]outcome{{err: err}}, len(u.of))
	}
	return all
}

// understandDocument reads the part that all asks share. If it cannot, why is the reason.
func understandDocument(st *statement, u *update, it *item) (o outcome, why string) {
	a := it.Get.Source.Holdfast.Answer
	o.stored = it.Result == rest.Created || it.Result == rest.Updated
	want := len(u.Refs)
	if st == acquire {
		want = 1
	}
	switch {
	case it.Status != 200 && it.Status != 201:
		return o, fmt.Sprintf("status %d", it.Status)
	case !o.stored && it.Result != rest.Noop:
		return o, fmt.Sprintf("result %q", it.Result)
	case a == nil:
		return o, "there is none"
	case o.stored == a.Unstored:
		// Otherwise an old answer could be taken for the present one.
		return o, "it is not the answer to this request"
	case a.Damage != nil:
		o.err = fmt.Errorf("%w: document %q: %s", driver.ErrDamaged, u.ID, *a.Damage)
		return o, ""
	case a.Time == nil || *a.Time <= 0 || *a.Time > maxMillis:
		return o, "no time"
	case a.Token != nil && (*a.Token < 0 || *a.Token > driver.MaxToken), a.Token == nil && (!o.stored || st == acquire):
		return o, "no token"
	case o.stored && (len(a.Ends) != want || want == 0 && (a.Swept <= 0 || st != sweep)):
		return o, "it is about another document than the request"
	case !o.stored && a.Holds == nil:
		return o, "no holds"
	case a.Waiters < 0, len(a.Ahead) != min(a.Position, mostAhead):
		return o, "the queue is wrong"
	}
	o.now, o.swept, o.position, o.waiters = model.Time(*a.Time)*1000, a.Swept, driver.NoPlace, a.Waiters
	o.more = a.Position > mostAhead
	if a.Placed {
		o.position = a.Position
	}
	if a.Token != nil {
		o.token = uint64(*a.Token)
	}
	switch {
	case !o.stored:
		o.record, why = a.record(u.document, o, a.Holds)
	case a.Placed:
		o.record, why = a.record(u.document, o, it.Get.Source.Holdfast.Holds)
	}
	return o, why
}

// understandHolds reads the outcomes of the holds of the request.
func understandHolds(st *statement, a *answerJSON, all []outcome) (why string) {
	if a.Placed {
		if st != acquire || a.Ends[0] != gone {
			return "it has a place, and is no refusal"
		}
		return ""
	}
	renewed := false
	for i, end := range a.Ends {
		switch o := &all[i]; {
		case end == gone:
			continue
		case end == endless:
			o.end = model.NoEnd
		case end > *a.Time && end <= maxMillis:
			o.end = model.Time(end) * 1000
		default:
			return fmt.Sprintf("end %d", end)
		}
		all[i].found, renewed = true, true
	}
	if !renewed && st != release {
		return "it stored something, and granted or renewed nothing"
	}
	if st == acquire && *a.Token == 0 {
		return "no token"
	}
	return ""
}

// record returns the document that the server returned.
func (a *answerJSON) record(d document, o outcome, holds []holdJSON) (r model.Record, why string) {
	r.Resource, r.Token, r.Touched = d.ID, o.token, o.now
	switch {
	case d.Resource != nil:
		r.Resource = *d.Resource
	case a.Resource != "":
		r.Resource = a.Resource
	}
	for _, h := range holds {
		old := h.HoldID == nil
		if h.LockID == "" || !old && h.HoldID.IsZero() || h.Mode == nil || old != (h.Token == 0) || h.Token < 0 || h.Token > driver.MaxToken ||
			h.End != nil && (*h.End <= 0 || *h.End > maxMillis) {
			return r, fmt.Sprintf("hold %+v", h)
		}
		r.Holds = append(r.Holds, h.hold())
	}
	for _, p := range append(a.Places, a.Ahead...) { // one of them
		if p.ID.IsZero() || p.LockID == "" || p.Mode == nil {
			return r, fmt.Sprintf("place %+v", p)
		}
		r.Places = append(r.Places, p.place())
	}
	return r, ""
}

func (e *holdJSON) hold() model.Hold {
	h := model.Hold{
		LockID: e.LockID, Mode: *e.Mode, Token: uint64(e.Token), End: model.NoEnd,
		Details: driver.Details{Owner: e.Owner, Host: e.Host, Comment: e.Comment},
		Created: shown(e.Created), Renewed: shown(e.Renewed),
		TakeoverDelay: time.Duration(e.Delay) * time.Millisecond, Released: e.Released,
	}
	switch {
	case e.Limit != nil:
		h.Limit = *e.Limit
	case h.Mode == driver.Shared:
		h.Limit = driver.LimitUnknown
	}
	if e.HoldID != nil {
		h.HoldID = *e.HoldID
	}
	if e.End != nil {
		h.End = model.Time(*e.End) * 1000
	}
	return h
}

// placeJSON is a place in the queue. Its names are those of the documents: add, never
// rename.
type placeJSON struct {
	ID     driver.PlaceID `json:"placeId"`
	LockID string         `json:"lockId"`
	Mode   *driver.Mode   `json:"mode"`
	Limit  *int           `json:"limit"` // of a shared request; absent: not known
	Owner  string         `json:"owner"`
	Host   string         `json:"host"`
	Since  int64          `json:"since"`
	Asked  int64          `json:"asked"`
	Until  int64          `json:"until"`
	Fair   bool           `json:"fair"`
}

func (e *placeJSON) place() model.Place {
	p := model.Place{
		ID: e.ID, LockID: e.LockID, Mode: *e.Mode, Owner: e.Owner, Host: e.Host, Fair: e.Fair,
		Since: shown(e.Since), Asked: shown(e.Asked), Until: shown(e.Until),
	}
	switch {
	case e.Limit != nil:
		p.Limit = *e.Limit
	case p.Mode == driver.Shared:
		p.Limit = driver.LimitUnknown
	}
	return p
}

// shown returns a time on which no decision depends, 0 if it is invalid.
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
