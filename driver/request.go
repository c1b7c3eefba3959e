package driver

import "time"

// AcquireRequest asks for one hold. A request with the lock ID and the hold ID of a hold that
// is there is answered for that hold, as it is: a repeat must be the same request, and stores
// do not compare its mode, limit, TTL and details with the hold's.
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
	// TTL is how long the hold lives unless it is renewed: whole milliseconds,
	// or Forever.
	TTL time.Duration
	// TakeoverDelay is how long the hold goes on blocking after its end unless
	// it was released: whole milliseconds.
	TakeoverDelay time.Duration
	Details       Details
	// Place is the acquirer's place in the queue: if the request is refused, it gets
	// the place or keeps it, for PlaceTTL. Zero: it wants none. Stores without
	// Traits.Queue ignore this field and the next one.
	Place PlaceID
	// Fair says that nobody who comes later may pass the place.
	Fair bool
}

// LimitDiffers reports whether one shared hold with that limit suffices to refuse the
// request.
func (r AcquireRequest) LimitDiffers(mode Mode, limit int) bool {
	return r.Mode == Shared && mode == Shared && limit != LimitUnknown && limit != r.Limit
}

// PlaceTTL is how long the place is kept after the request: FairPlaceTTL or PlainPlaceTTL.
func (r AcquireRequest) PlaceTTL() time.Duration {
	if r.Fair {
		return FairPlaceTTL
	}
	return PlainPlaceTTL
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
