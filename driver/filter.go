package driver

import "time"

// Filter chooses holds. Zero fields choose all; the others must all match.
//
// Waiters are chosen by the same fields: CreatedBefore and CreatedAfter compare when a
// waiter came. LeftBelow and LeftAtLeast compare how long its place is kept, which is not
// how long it waits. Expired chooses no further waiters, because stores keep no place past
// its end.
type Filter struct {
	Resource string
	LockID   string
	Owner    string
	// CreatedBefore and CreatedAfter leave out holds of that very moment.
	CreatedBefore time.Time
	CreatedAfter  time.Time
	// LeftBelow chooses holds with less time left; never those without an end.
	LeftBelow time.Duration
	// LeftAtLeast chooses holds with that much time left, or without an end.
	LeftAtLeast time.Duration
	// Expired also chooses holds that no longer block but were not yet swept.
	Expired bool
}

// MatchPlace reports whether the waiter is chosen, by its resource, lock ID and owner, and
// by when it came.
func (f Filter) MatchPlace(p Place) bool {
	return f.Match(Status{
		Resource: p.Resource, LockID: p.LockID, Details: Details{Owner: p.Owner}, Created: p.Since, Left: p.Left,
	})
}

// Match reports whether the hold is chosen. It does not consider Expired, nor a Left
// that is Unknown: stores that yield holds which no longer block check Expired first.
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
