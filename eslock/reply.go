package eslock

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// item is the reply to one update, alone or in a bulk.
type item struct {
	ID     string          `json:"_id"`
	Result string          `json:"result"`
	Status int             `json:"status"`
	Error  json.RawMessage `json:"error"`
	Get    struct {
		Source struct {
			Holdfast *recordJSON `json:"holdfast"`
		} `json:"_source"`
	} `json:"get"`
}

// recordJSON is a document as a statement understood it.
type recordJSON struct {
	Resource string     `json:"resource"`
	Time     *int64     `json:"time"`
	Token    *int64     `json:"token"`
	Holds    []holdJSON `json:"holds"`
	Swept    int        `json:"swept"`
	Damage   *string    `json:"damage"`
	Unstored bool       `json:"unstored"` // made by a statement that stored nothing
}

// holdJSON is one hold. Its names are those of the documents: add, never rename.
type holdJSON struct {
	LockID   string         `json:"lockId"`
	HoldID   *driver.HoldID `json:"holdId,omitempty"` // absent: of an old client
	Mode     *driver.Mode   `json:"mode"`
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
	deleted = "deleted"
	noop    = "noop"
	missing = "missing" // there is no such document
)

// outcome is what became of an update, and the document after it.
type outcome struct {
	did    string
	record model.Record
	now    model.Time
	swept  int
	err    error // all else is void then, and the outcome unknown unless it is named
}

// outcome understands a reply without an error.
func (it *item) outcome(st *statement, d document) outcome {
	fail := func(format string, args ...any) outcome {
		return outcome{err: fmt.Errorf("the answer about document %q cannot be understood: %s", d.ID, fmt.Sprintf(format, args...))}
	}
	switch {
	case it.ID != d.ID:
		return fail("it is about %q", it.ID)
	case it.Status != 200 && it.Status != 201:
		return fail("status %d", it.Status)
	}
	switch it.Result {
	case deleted, noop:
		if !st.fetches {
			return outcome{did: it.Result}
		}
	case created, updated:
	default:
		return fail("result %q", it.Result)
	}
	r := it.Get.Source.Holdfast
	if r == nil || it.Result == deleted {
		return fail("it has no document")
	}
	if it.Result == noop != r.Unstored {
		// Else a document as it was stored long ago would be taken for the present.
		return fail("it has the document of another time")
	}
	o := outcome{did: it.Result, swept: r.Swept}
	if err := r.decode(&o, d); err != nil {
		return outcome{err: fmt.Errorf("%w: document %q: %v", driver.ErrDamaged, d.ID, err)}
	}
	return o
}

func (r *recordJSON) decode(o *outcome, d document) error {
	if r.Damage != nil {
		return fmt.Errorf("%s", *r.Damage)
	}
	o.record.Resource = d.ID
	if r.Resource != "" {
		o.record.Resource = r.Resource
	}
	switch {
	case d.Resource != nil && o.record.Resource != *d.Resource:
		return fmt.Errorf("it is that of another resource: %q", o.record.Resource)
	case r.Time == nil || *r.Time <= 0 || *r.Time > maxMillis:
		return fmt.Errorf("no time")
	case r.Token == nil || *r.Token < 0 || *r.Token > driver.MaxToken:
		return fmt.Errorf("no token")
	case r.Swept < 0:
		return fmt.Errorf("%d holds swept", r.Swept)
	case r.Holds == nil:
		return fmt.Errorf("no holds")
	}
	o.now = model.Time(*r.Time) * 1000
	o.record.Token, o.record.Touched = uint64(*r.Token), o.now
	for i := range r.Holds {
		h, err := r.Holds[i].decode()
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
	case e.Delay < 0 || e.Delay > driver.MaxTTL.Milliseconds():
		return h, fmt.Errorf("takeover delay of %d ms", e.Delay)
	case e.End != nil && (*e.End <= 0 || *e.End > maxMillis):
		return h, fmt.Errorf("end %d", *e.End)
	}
	h.Mode = *e.Mode
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
