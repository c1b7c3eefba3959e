package model

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// encodedHold is the JSON form of a hold. Its names are part of the format of every store
// that keeps records as text: add names, never change one.
type encodedHold struct {
	LockID   string        `json:"lockId"`
	HoldID   driver.HoldID `json:"holdId"`
	Mode     *driver.Mode  `json:"mode"`
	Limit    *int          `json:"limit,omitempty"` // of a shared hold; absent: unknown
	Token    uint64        `json:"token"`
	Owner    string        `json:"owner,omitempty"`
	Host     string        `json:"host,omitempty"`
	Comment  string        `json:"comment,omitempty"`
	Created  Time          `json:"created"`
	Renewed  Time          `json:"renewed,omitempty"`
	End      *Time         `json:"end,omitempty"` // absent: no end
	DelayMS  int64         `json:"takeoverDelayMs,omitempty"`
	Released bool          `json:"released,omitempty"`
}

// EncodeHolds returns the holds as a JSON array, with times in microseconds. The other fields
// of a record are numbers, which a store keeps beside it.
func EncodeHolds(holds []Hold) ([]byte, error) {
	out := make([]encodedHold, len(holds))
	for i, h := range holds {
		out[i] = encodedHold{
			LockID: h.LockID, HoldID: h.HoldID, Mode: &holds[i].Mode, Token: h.Token,
			Owner: h.Details.Owner, Host: h.Details.Host, Comment: h.Details.Comment,
			Created: h.Created, Renewed: h.Renewed,
			DelayMS: h.TakeoverDelay.Milliseconds(), Released: h.Released,
		}
		if h.End != NoEnd {
			out[i].End = &holds[i].End
		}
		if h.Mode == driver.Shared && h.Limit != driver.LimitUnknown {
			out[i].Limit = &holds[i].Limit
		}
	}
	return json.Marshal(out)
}

// DecodeHolds parses the text of EncodeHolds. The error is driver.ErrDamaged if the holds
// could not have been granted. It never guesses: a record that is read wrongly could lead to
// a second grant.
func DecodeHolds(data []byte) ([]Hold, error) {
	var in []encodedHold
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("%w: %v", driver.ErrDamaged, err)
	}
	if in == nil {
		return nil, fmt.Errorf("%w: null instead of holds", driver.ErrDamaged)
	}
	holds := make([]Hold, len(in))
	for i, e := range in {
		h := Hold{
			LockID: e.LockID, HoldID: e.HoldID, Token: e.Token,
			Details: driver.Details{Owner: e.Owner, Host: e.Host, Comment: e.Comment},
			Created: e.Created, Renewed: e.Renewed, End: NoEnd,
			TakeoverDelay: time.Duration(e.DelayMS) * time.Millisecond, Released: e.Released,
		}
		if e.End != nil {
			h.End = *e.End
		}
		if e.Mode != nil {
			h.Mode = *e.Mode
		}
		h.Limit = LimitOf(h.Mode, e.Limit)
		err := e.check()
		if err == nil {
			err = h.check()
		}
		if err != nil {
			return nil, fmt.Errorf("%w: hold %d: %v", driver.ErrDamaged, i, err)
		}
		holds[i] = h
	}
	return holds, nil
}

// LimitOf returns the limit of a hold or a place that was stored with the given limit; nil
// means without one.
func LimitOf(mode driver.Mode, limit *int) int {
	switch {
	case limit != nil:
		return *limit
	case mode == driver.Shared:
		return driver.LimitUnknown
	}
	return 0
}

// check returns the errors that the conversion to a Hold would hide.
func (e encodedHold) check() error {
	if e.Mode == nil {
		return fmt.Errorf("no mode")
	}
	if e.Limit != nil && (*e.Limit < 0 || *e.Mode != driver.Shared) {
		return fmt.Errorf("limit %d of an %v hold", *e.Limit, *e.Mode)
	}
	if e.DelayMS < 0 || e.DelayMS > driver.MaxTTL.Milliseconds() {
		return fmt.Errorf("takeover delay of %d ms", e.DelayMS)
	}
	return nil
}

// lastEnd is the latest possible end of a hold: tokens end when the clock passes MaxToken.
const lastEnd = Time(driver.MaxToken + driver.MaxTTL/time.Microsecond)

func (h Hold) check() error {
	switch {
	case driver.ValidLockID(h.LockID) != nil:
		return fmt.Errorf("lock ID %q", h.LockID)
	case h.HoldID.IsZero():
		return fmt.Errorf("no hold ID")
	case h.Token == 0 || h.Token > driver.MaxToken:
		return fmt.Errorf("token %d", h.Token)
	case h.End <= 0 || h.Created < 0 || h.Renewed < 0:
		return fmt.Errorf("a time before 1970")
	case h.End > lastEnd && h.End != NoEnd:
		return fmt.Errorf("end %d", h.End)
	}
	return nil
}
