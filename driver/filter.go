package driver

import "time"

// Filter selects holds. A zero field matches every hold; a hold must match all fields.
//
// Filter also selects waiters. CreatedBefore and CreatedAfter then compare when a waiter
// came. LeftBelow and LeftAtLeast compare how long its place is kept, not how long it waits.
// Expired has no effect, because stores keep no place beyond its end.
type Filter struct {
	Resource string
	LockID   string
	Owner    string
	// CreatedBefore and CreatedAfter exclude holds of exactly that time.
	CreatedBefore time.Time
	CreatedAfter  time.Time
	// LeftBelow selects holds with less time left, but no holds without an end.
	LeftBelow time.Duration
	// LeftAtLeast selects holds with at least that much time left, or without an end.
	LeftAtLeast time.Duration
	// Expired also selects holds that no longer block but were not swept yet.
	Expired bool
}

// MatchPlace reports whether the waiter matches, by its resource, lock ID, owner, time of
// arrival, and how long its place is kept.
func (f Filter) MatchPlace(p Place) bool {
	return f.Match(Status{
		Resource: p.Resource, LockID: p.LockID, Details: Details{Owner: p.Owner}, Created: p.Since, Left: p.Left,
	})
}

// Match reports whether the hold matches. It ignores Expired, and does not handle a Left that
// is Unknown: stores that yield holds which no longer block check Expired first.
func (f Filter) Match(s Status) bool {
	switch {
	case f.Resource != "" && s.Resource != f.Resource,
		f.LockID != "" && s.LockID != f.LockID,
		f.Owner != "" && s.Owner != f.Owner,
		!f.CreatedBefore.IsZero() && !s.Created.Before(f.CreatedBefore),
		!f.CreatedAfter.IsZero() && !s.Created.After(f.CreatedAfter),
		f.LeftBelow > 0 && (s.Left == Forever || s.Left >= f.LeftBelow),
		f.LeftAtLeast > 0 && s.Left < f.LeftAtLeast:
		return false
	}
	return true
}
