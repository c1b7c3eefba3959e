package driver

import "time"

// Filter chooses holds. Zero fields choose all; the others must all match.
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
