package wire

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Hold is a hold in a list or in a refusal. Callers who may not see all of a hold get
// only parts: members are left out, and names are empty.
type Hold struct {
	Resource string        `json:"resource"`
	LockID   string        `json:"lockId,omitempty"`
	HoldID   driver.HoldID `json:"holdId,omitzero"`
	// Ref is RefOf the hold ID.
	Ref     string      `json:"ref,omitempty"`
	Mode    driver.Mode `json:"mode"`
	Limit   *int        `json:"limit"` // null for an exclusive hold, or if unknown
	Owner   string      `json:"owner"`
	Host    string      `json:"host"`
	Comment string      `json:"comment"`
	Token   uint64      `json:"token,omitzero"`
	// TTLMs is the time left: -1 for no end, null if the store cannot tell.
	TTLMs           *Millis    `json:"ttlMs"`
	CreatedAt       *time.Time `json:"createdAt"`
	RenewedAt       *time.Time `json:"renewedAt"`
	AgeMs           *Millis    `json:"ageMs"`        // since CreatedAt, null if the store cannot tell
	RenewedAgoMs    *Millis    `json:"renewedAgoMs"` // since RenewedAt, like AgeMs
	TakeoverDelayMs Millis     `json:"takeoverDelayMs"`
	Released        bool       `json:"released"`
}

// HoldOf returns the hold for JSON.
func HoldOf(s driver.Status) Hold {
	return Hold{
		Resource: s.Resource, LockID: s.LockID, HoldID: s.HoldID, Ref: RefOf(s.HoldID), Mode: s.Mode,
		Limit: LimitOf(s.Mode, s.Limit), Owner: s.Owner, Host: s.Host, Comment: s.Comment, Token: s.Token,
		TTLMs: known(s.Left, MillisUp), CreatedAt: moment(s.Created), RenewedAt: moment(s.Renewed),
		AgeMs: known(s.Age(), MillisOf), RenewedAgoMs: known(s.RenewedAgo(), MillisOf),
		TakeoverDelayMs: MillisOf(s.TakeoverDelay), Released: s.Released,
	}
}

// Driver returns the hold as the store returned it.
func (h Hold) Driver() driver.Status {
	return driver.Status{
		Resource: h.Resource, LockID: h.LockID, HoldID: h.HoldID, Mode: h.Mode, Limit: limit(h.Mode, h.Limit),
		Token: h.Token, Details: driver.Details{Owner: h.Owner, Host: h.Host, Comment: h.Comment},
		Created: at(h.CreatedAt), Renewed: at(h.RenewedAt), Seen: seen(h.CreatedAt, h.AgeMs), Left: left(h.TTLMs),
		TakeoverDelay: h.TakeoverDelayMs.Duration(), Released: h.Released,
	}
}

// Waiter is a place in a queue, in a list or in a refusal. As with a Hold, callers may
// get only parts.
type Waiter struct {
	Resource string      `json:"resource"`
	LockID   string      `json:"lockId,omitempty"`
	Mode     driver.Mode `json:"mode"`
	Limit    *int        `json:"limit"` // as for a hold
	Owner    string      `json:"owner"`
	Host     string      `json:"host"`
	Fair     bool        `json:"fair"`
	// Before is the number of live places before it, fair or not.
	Before     int        `json:"before"`
	Since      *time.Time `json:"since"`
	Asked      *time.Time `json:"asked"`
	AgeMs      *Millis    `json:"ageMs"`      // since Since, null if the store cannot tell
	AskedAgoMs *Millis    `json:"askedAgoMs"` // since Asked, like AgeMs
	LeftMs     *Millis    `json:"leftMs"`     // how long the place will be kept
}

// WaiterOf returns the place for JSON.
func WaiterOf(p driver.Place) Waiter {
	return Waiter{
		Resource: p.Resource, LockID: p.LockID, Mode: p.Mode, Limit: LimitOf(p.Mode, p.Limit),
		Owner: p.Owner, Host: p.Host, Fair: p.Fair, Before: p.Position,
		Since: moment(p.Since), Asked: moment(p.Asked), LeftMs: known(p.Left, MillisUp),
		AgeMs: known(p.Age(), MillisOf), AskedAgoMs: known(p.AskedAgo(), MillisOf),
	}
}

// Driver returns the place as the store returned it.
func (w Waiter) Driver() driver.Place {
	return driver.Place{
		Resource: w.Resource, LockID: w.LockID, Mode: w.Mode, Limit: limit(w.Mode, w.Limit),
		Owner: w.Owner, Host: w.Host, Fair: w.Fair, Position: w.Before,
		Since: at(w.Since), Asked: at(w.Asked), Seen: seen(w.Since, w.AgeMs), Left: left(w.LeftMs),
	}
}

// HoldList is a list of holds in plain JSON.
type HoldList struct {
	Holds []Hold `json:"holds"`
	// Truncated means that there are more holds.
	Truncated bool `json:"truncated"`
}

// WaiterList is a list of places in plain JSON.
type WaiterList struct {
	Waiters   []Waiter `json:"waiters"`
	Truncated bool     `json:"truncated"`
}

// End is the last line of a stream of entries. A stream without it has failed; it is not
// a short list. End has one of its members.
type End struct {
	End   *Count   `json:"end,omitempty"`
	Error *Refusal `json:"error,omitempty"`
}

// Count is the number of entries before the end.
type Count struct {
	Count int `json:"count"`
}

// LimitOf returns the limit of a hold for JSON: null if it is exclusive, or if the limit
// is unknown.
func LimitOf(mode driver.Mode, limit int) *int {
	if mode != driver.Shared || limit == driver.LimitUnknown {
		return nil
	}
	return &limit
}

func limit(mode driver.Mode, limit *int) int {
	switch {
	case mode != driver.Shared:
		return 0
	case limit == nil:
		return driver.LimitUnknown
	}
	return *limit
}

// moment returns the time for JSON: null for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func at(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

// seen returns the time of the store's clock at which something that began at began had
// the given age. It lacks the fraction of a millisecond.
func seen(began *time.Time, age *Millis) time.Time {
	if began == nil || age == nil || *age < 0 {
		return time.Time{}
	}
	return began.Add(age.Duration())
}
