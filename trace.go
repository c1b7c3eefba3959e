package holdfast

import "time"

// Trace observes what a Client does. Functions that are nil are not called. They
// are called one at a time, in the order in which things happened, by a goroutine
// that also writes to Options.Logger and does nothing else: a little later than
// what they tell of, and however long they take, no lock is delayed. If 10,000
// calls wait, what comes on top is left out, and a warning says how much. Close
// waits for them to return, within its 5 s, so they must not call it. One that
// panics ends the program.
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
