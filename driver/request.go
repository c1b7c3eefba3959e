package driver

import "time"

// AcquireRequest asks for one hold. A request with the lock ID and the hold ID of a hold that
// is there is answered for that hold, as it is: a repeat must be the same request, and nobody
// checks whether its mode, limit, TTL and details are those of the hold.
type AcquireRequest struct {
	Resource string
	LockID   string
	HoldID   HoldID
	Mode     Mode
	// Limit is how many shared holds there may be, this one included: granted while
	// fewer than that block. 0 means no limit; the largest is MaxLimit. The hold keeps
	// it, and while it blocks, a shared request with another limit is refused: a
	// program with a wrong limit, or without one, must not take the permits of others.
	Limit int
	// OwnLimit makes the request's own limit alone decide, whatever the limits of the
	// holds are. The hold then keeps no limit: it is LimitUnknown. It is for the
	// drop-ins, which promise this to their callers.
	OwnLimit bool
	// TTL is how long the hold lives unless it is renewed: whole milliseconds,
	// or Forever.
	TTL time.Duration
	// TakeoverDelay is how long the hold goes on blocking after its end unless
	// it was released: whole milliseconds.
	TakeoverDelay time.Duration
	Details       Details
	// Place is the acquirer's place in the queue: if the request is refused, it gets
	// the place or keeps it. Zero: it wants none. Stores without Traits.Queue ignore
	// this field and those below.
	Place PlaceID
	// Keep is how long the place is kept after this request: whole milliseconds, at
	// most MaxKeep. 0 is DefaultKeep.
	Keep time.Duration
	// Fair says that nobody who comes later may pass the place.
	Fair bool
	// Nested is a live shared hold of the resource that the caller works under. A shared
	// request of such a caller is not stopped by places: whoever is there may wait for
	// that very hold.
	Nested HoldID
}

// LimitDiffers reports whether one shared hold with that limit suffices to refuse the
// request.
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

// Grant is a hold that was granted now or by an earlier attempt of the request.
type Grant struct {
	Token uint64
	// Left is how long until the end on the store's clock, or Unknown.
	Left time.Duration
}

// RenewRequest extends one hold.
type RenewRequest struct {
	HoldRef
	// TTL from now on: whole milliseconds, or Forever.
	TTL time.Duration
	// Exact moves the end to now + TTL even if that is earlier. It is for the
	// drop-ins, which promise this to their callers; a renewal that arrives late, or a
	// late copy of one, can then shorten a lease.
	Exact bool
	// Waits is what the holder waits for meanwhile. Nil clears what was noted before.
	Waits *Waits
}

// RenewResult is the outcome of one RenewRequest.
type RenewResult struct {
	// Left is how long until the end on the store's clock, or Unknown.
	Left time.Duration
	// Waiters is how many places the queue of the resource has.
	Waiters int
	// Err is nil for a renewed hold and wraps ErrLost for one that is past its
	// end, released or not there. Anything else means unknown.
	Err error
}

// ReleaseRequest ends one hold, or takes a waiter out of the queue, or both.
type ReleaseRequest struct {
	HoldRef
	// Place is a place in the queue of the resource that is given up, if any. HoldID is
	// zero if only the place is to go.
	Place PlaceID
	// After is how long the hold still lives: its end becomes now + After, at
	// most what it was, and it can no longer be renewed. 0 ends it at once.
	After time.Duration
	// Unheard means that the acquire of the hold got no answer. If the hold was
	// renewed since, another program has found it by its lock ID and uses it: it is
	// not released then, and Found is false. It is for drop-ins whose callers share
	// holds by lock ID; stores without such a drop-in may ignore it.
	Unheard bool
	// Reason is set if an operator releases what may be anybody's. A store that gives
	// callers rights of their own looks for the right to that, and notes the reason;
	// without one, it releases only what is the caller's. Other stores ignore it. After is
	// 0 then.
	Reason string
}

// ReleaseResult is the outcome of one ReleaseRequest.
type ReleaseResult struct {
	// Found says that the hold was there. It says nothing about a place.
	Found bool
	// Remains says that the lock ID still has a live hold on the resource, under
	// another hold ID: a program without hold IDs has renewed it or taken it again.
	// Only stores that share their layout with such programs set it.
	Remains bool
	// Err is nil if the hold is released, whether it was found or not. Anything
	// else means unknown.
	Err error
}
