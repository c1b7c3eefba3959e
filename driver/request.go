package driver

import "time"

// AcquireRequest asks for one hold.
type AcquireRequest struct {
	Resource string
	LockID   string
	HoldID   HoldID
	Mode     Mode
	// Limit is how many shared holds there may be, this one included: granted
	// while fewer than that block. 0 means no limit. The hold keeps it, and while
	// it blocks, a shared request with another limit is refused: whoever forgets
	// the limit, or has it wrong, must not take the permits of the others.
	Limit int
	// OwnLimit lets the request's own limit alone decide, whatever those of the
	// holds are, and the hold keeps none: its limit is LimitUnknown. It is for the
	// drop-ins, whose callers were promised so.
	OwnLimit bool
	// TTL is how long the hold lives unless it is renewed: whole milliseconds,
	// or Forever.
	TTL time.Duration
	// TakeoverDelay is how long the hold goes on blocking after its end unless
	// it was released: whole milliseconds.
	TakeoverDelay time.Duration
	Details       Details
	// Waiting says that the asker will wait if it is refused. A store with
	// Traits.Waiters notes that, seldom, for people to see: if one of the holds
	// in the way is at least NoteAfter old and has no note younger than
	// NoteEvery, all that are in the way get one. Any other refusal writes nothing.
	Waiting bool
}

// When a store notes that somebody waits. Short holds are never noted, and a
// resource that many wait for costs no more writes than one that one waits for.
const (
	NoteAfter = 5 * time.Second
	NoteEvery = 10 * time.Minute
)

// LimitDiffers reports whether a shared hold with that limit keeps the request
// from being granted, however many there are.
func (r AcquireRequest) LimitDiffers(mode Mode, limit int) bool {
	return r.Mode == Shared && mode == Shared && !r.OwnLimit && limit != LimitUnknown && limit != r.Limit
}

// HeldLimit is the limit that a hold of the request keeps.
func (r AcquireRequest) HeldLimit() int {
	if r.Mode == Shared && r.OwnLimit {
		return LimitUnknown
	}
	return r.Limit
}

// Grant is a hold granted, or found granted by an earlier try of the request.
type Grant struct {
	Token uint64
	// Left is how long until the end on the store's clock, or Unknown.
	Left time.Duration
}

// RenewRequest asks for one hold to live on.
type RenewRequest struct {
	HoldRef
	// TTL from now on: whole milliseconds, or Forever.
	TTL time.Duration
	// Exact moves the end to now + TTL even if that is earlier. It is for the
	// drop-ins, whose callers were promised so; a renewal that arrives late can
	// then shorten a lease.
	Exact bool
}

// RenewResult is what became of one RenewRequest.
type RenewResult struct {
	// Left is how long until the end on the store's clock, or Unknown.
	Left time.Duration
	// Err is nil for a renewed hold and wraps ErrLost for one that is past its
	// end, released or not there. Anything else means unknown.
	Err error
}

// ReleaseRequest asks for one hold to end.
type ReleaseRequest struct {
	HoldRef
	// After is how long the hold still lives: its end becomes now + After, at
	// most what it was, and it can no longer be renewed. 0 ends it at once.
	After time.Duration
}

// ReleaseResult is what became of one ReleaseRequest.
type ReleaseResult struct {
	// Found says that the hold was there.
	Found bool
	// Remains says that the lock ID still has a live hold on the resource, under
	// another hold ID: a program that knows no hold IDs has renewed it or taken it
	// again. Only stores that share their layout with such programs tell.
	Remains bool
	// Err is nil if the hold is released, whether it was found or not. Anything
	// else means unknown.
	Err error
}
