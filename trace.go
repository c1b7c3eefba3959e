package holdfast

import "time"

// Trace observes what a Client does. Functions that are nil are not called. They
// are called with no lock held, by the goroutine that did the work, which waits
// for them: they should return soon, and must not close the Client.
type Trace struct {
	// Attempt: a store answered, or did not answer, an acquire.
	Attempt func(AttemptInfo)
	// Waited: a Lock or RLock that could not be granted at once has ended.
	Waited func(WaitInfo)
	// Acquired: a lock was granted.
	Acquired func(*Hold)
	// Renewed: a renewal was answered (nil), or was not: it will be repeated
	// until the hold's deadline.
	Renewed func(*Hold, error)
	// Released: the holder gave the lock up. The error says that the store did
	// not confirm it; the hold then ends by itself.
	Released func(*Hold, error)
	// Lost: the hold's context was cancelled with this *LostError.
	Lost func(*Hold, error)
}

// AttemptInfo is one acquire of a store.
type AttemptInfo struct {
	Resource, LockID string
	Mode             Mode
	Took             time.Duration
	// Err is nil for a grant and a *HeldError for a refusal.
	Err error
}

// WaitInfo is one wait for a resource.
type WaitInfo struct {
	Resource, LockID string
	Mode             Mode
	Waited           time.Duration
	Err              error // nil: it was granted
}
