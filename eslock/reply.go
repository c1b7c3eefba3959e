package eslock

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// item is the reply to one update, alone or in a bulk.
type item struct {
	Index  string          `json:"_index"`
	ID     string          `json:"_id"`
	Result string          `json:"result"`
	Status int             `json:"status"`
	Error  json.RawMessage `json:"error"`
	Get    struct {
		Source struct {
			Holdfast struct {
				Answer *answerJSON `json:"answer"`
			} `json:"holdfast"`
		} `json:"_source"`
	} `json:"get"`
}

// answerJSON is what a statement answers. One that stores nothing tells all that
// it understood of the document; of what is stored it tells no more than what was
// asked for, for a document may have thousands of holds.
type answerJSON struct {
	Time     *int64  `json:"time"`
	Token    *int64  `json:"token"` // of the hold; the last one, where nothing was stored
	Damage   *string `json:"damage"`
	Unstored bool    `json:"unstored"`
	// Where nothing was stored:
	Resource string     `json:"resource"`
	Holds    []holdJSON `json:"holds"`
	// Where something was:
	End   *int64  `json:"end"`   // of the hold; absent: forever
	Ends  []int64 `json:"ends"`  // what became of each renewal
	Found []*bool `json:"found"` // of each release
	Swept int     `json:"swept"`
}

// holdJSON is one hold. Its names are those of the documents: add, never rename.
type holdJSON struct {
	LockID   string         `json:"lockId"`
	HoldID   *driver.HoldID `json:"holdId,omitempty"` // absent: of an old client
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

// What the server did with an update.
const (
	created = "created"
	updated = "updated"
	noop    = "noop"
	missing = "missing" // there is no such document
)

// outcome is what became of an update.
type outcome struct {
	did string
	now model.Time
	err error // all else is void then, and the outcome unknown unless it is named
	// record is the document, where nothing was stored.
	record model.Record
	// token and end are those of the hold that was granted, end that of one that was
	// renewed.
	token uint64
	end   model.Time
	found bool // what was released
	swept int
}

// What is answered in place of the end of a hold.
const (
	gone    = -1 // it was not renewed
	endless = -2
)

// left is how long the hold that was granted or renewed has yet.
func (o *outcome) left() time.Duration {
	if o.end == model.NoEnd {
		return driver.Forever
	}
	return time.Duration(o.end-o.now) * time.Microsecond
}

// outcomes understands a reply without an error. It says what became of each of so
// many asks.
func (it *item) outcomes(st *statement, d document, asks int) []outcome {
	o := it.outcome(st, d, asks)
	all := make([]outcome, asks)
	for i := range all {
		all[i] = o
		if o.err != nil || o.did == noop {
			continue
		}
		a := it.Get.Source.Holdfast.Answer
		if a.Found != nil {
			all[i].found = *a.Found[i]
		}
		switch {
		case a.Ends == nil || a.Ends[i] == endless:
		case a.Ends[i] == gone:
			all[i].did = noop // and there is no such hold in the record, which is empty
		default:
			all[i].end = model.Time(a.Ends[i]) * 1000
		}
	}
	return all
}

func (it *item) outcome(st *statement, d document, asks int) outcome {
	fail := func(format string, args ...any) outcome {
		return outcome{err: fmt.Errorf("the answer about document %q cannot be understood: %s", d.ID, fmt.Sprintf(format, args...))}
	}
	switch {
	case it.ID != d.ID:
		return fail("it is about %q", it.ID)
	case it.Status != 200 && it.Status != 201:
		return fail("status %d", it.Status)
	case it.Result != created && it.Result != updated && it.Result != noop:
		return fail("result %q", it.Result)
	}
	a := it.Get.Source.Holdfast.Answer
	switch {
	case a == nil:
		return fail("there is none")
	case it.Result == noop != a.Unstored:
		// Else what was answered long ago would be taken for the present.
		return fail("it is that of another time")
	case a.Damage != nil:
		return outcome{err: damaged(d, *a.Damage)}
	case a.Time == nil || *a.Time <= 0 || *a.Time > maxMillis:
		return fail("no time")
	}
	o := outcome{did: it.Result, now: model.Time(*a.Time) * 1000}
	if it.Result == noop {
		if err := a.decode(&o, d); err != nil {
			return outcome{err: damaged(d, err.Error())}
		}
		return o
	}
	if a.Ends != nil && len(a.Ends) != asks || a.Found != nil && (len(a.Found) != asks || slices.Contains(a.Found, nil)) {
		return fail("it is not about what was asked")
	}
	if why := st.check(a); why != "" {
		return fail("%s", why)
	}
	o.end, o.swept = model.NoEnd, a.Swept
	if a.End != nil {
		o.end = model.Time(*a.End) * 1000
	}
	if a.Token != nil {
		o.token = uint64(*a.Token)
	}
	return o
}

func damaged(d document, why string) error {
	return fmt.Errorf("%w: document %q: %s", driver.ErrDamaged, d.ID, why)
}

// isGranted says what is wrong with the answer about a hold that was granted, or
// "".
func isGranted(a *answerJSON) string {
	switch {
	case a.Token == nil || *a.Token <= 0 || *a.Token > driver.MaxToken:
		return "no token"
	case a.End != nil && !a.ahead(*a.End):
		return fmt.Sprintf("end %d", *a.End)
	}
	return ""
}

// ahead: a hold can end then.
func (a *answerJSON) ahead(end int64) bool { return end > *a.Time && end <= maxMillis }

// hasEnds says what is wrong with the answer about holds some of which were
// renewed, or "".
func hasEnds(a *answerJSON) string {
	if a.Ends == nil {
		return "no ends"
	}
	renewed := false
	for _, end := range a.Ends {
		if end != gone && end != endless && !a.ahead(end) {
			return fmt.Sprintf("end %d", end)
		}
		renewed = renewed || end != gone
	}
	if !renewed {
		return "it stored something, and renewed nothing"
	}
	return ""
}

func hasFound(a *answerJSON) string {
	if a.Found == nil {
		return "it does not say of each hold whether it was there"
	}
	return ""
}

func hasSwept(a *answerJSON) string {
	if a.Swept <= 0 {
		return fmt.Sprintf("%d holds swept", a.Swept)
	}
	return ""
}

// decode reads the document that was told.
func (a *answerJSON) decode(o *outcome, d document) error {
	o.record.Resource = d.ID
	if a.Resource != "" {
		o.record.Resource = a.Resource
	}
	switch {
	case d.Resource != nil && o.record.Resource != *d.Resource:
		return fmt.Errorf("it is that of another resource: %q", o.record.Resource)
	case a.Token == nil || *a.Token < 0 || *a.Token > driver.MaxToken:
		return fmt.Errorf("no token")
	case a.Holds == nil:
		return fmt.Errorf("no holds")
	}
	o.record.Token, o.record.Touched = uint64(*a.Token), o.now
	for i := range a.Holds {
		h, err := a.Holds[i].decode()
		if err != nil {
			return fmt.Errorf("hold %d: %v", i, err)
		}
		o.record.Holds = append(o.record.Holds, h)
	}
	return nil
}

// maxMillis is beyond any moment and any duration that can have been stored.
const maxMillis = 100_000_000_000_000

func (e *holdJSON) decode() (model.Hold, error) {
	h := model.Hold{
		LockID: e.LockID, Token: uint64(e.Token), End: model.NoEnd,
		Details: driver.Details{Owner: e.Owner, Host: e.Host, Comment: e.Comment},
		Created: shown(e.Created), Renewed: shown(e.Renewed),
		TakeoverDelay: time.Duration(e.Delay) * time.Millisecond, Released: e.Released,
	}
	switch {
	case e.LockID == "":
		return h, fmt.Errorf("no lock ID")
	case e.Mode == nil:
		return h, fmt.Errorf("no mode")
	case e.HoldID == nil && e.Token != 0, e.HoldID != nil && (e.HoldID.IsZero() || e.Token <= 0 || e.Token > driver.MaxToken):
		return h, fmt.Errorf("token %d", e.Token)
	case e.Limit != nil && (*e.Limit < 0 || *e.Mode != driver.Shared):
		return h, fmt.Errorf("limit %d", *e.Limit)
	case e.Delay < 0 || e.Delay > driver.MaxTTL.Milliseconds():
		return h, fmt.Errorf("takeover delay of %d ms", e.Delay)
	case e.End != nil && (*e.End <= 0 || *e.End > maxMillis):
		return h, fmt.Errorf("end %d", *e.End)
	}
	h.Mode = *e.Mode
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
	return h, nil
}

// shown is a moment that decides nothing.
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
