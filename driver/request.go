package driver

import "time"

// AcquireRequest asks for one hold. If the lock ID has a hold with the same hold ID, the
// request is a repeat and is answered for that hold as it is. A repeat must be the same
// request: stores do not compare its mode, limit, TTL and details with the hold's.
type AcquireRequest struct {
	Resource string
	LockID   string
	HoldID   HoldID
	Mode     Mode
	// Limit is the largest number of shared holds of the resource, this one included. 0 means
	// no limit; the largest is MaxLimit. The hold keeps its limit, and while it blocks, a
	// shared request with another limit is refused: a program with a wrong limit, or without
	// one, must not take the permits of others.
	Limit int
	// TTL is how long the hold lives unless it is renewed, in whole milliseconds, or Forever.
	TTL time.Duration
	// TakeoverDelay is how long the hold goes on blocking after its end unless it was
	// released, in whole milliseconds.
	TakeoverDelay time.Duration
	Details       Details
	// Place is the acquirer's place in the queue. If the request is refused, the acquirer
	// gets the place or keeps it, for PlaceTTL. If Place is zero, it gets none. Stores
	// without Traits.Queue ignore Place and Fair.
	Place PlaceID
	// Fair says that no later waiter may overtake the acquirer.
	Fair bool
}

// LimitDiffers reports whether a hold with that mode and limit makes the store refuse the
// request because of its limit.
func (r AcquireRequest) LimitDiffers(mode Mode, limit int) bool {
	return r.Mode == Shared && mode == Shared && limit != LimitUnknown && limit != r.Limit
}

// PlaceTTL returns how long the place is kept after the request: FairPlaceTTL or
// PlainPlaceTTL.
func (r AcquireRequest) PlaceTTL() time.Duration {
	if r.Fair {
		return FairPlaceTTL
	}
	return PlainPlaceTTL
}

// Grant is the answer to an acquire that was granted, now or by an earlier attempt.
type Grant struct {
	Token uint64
	// Left is the time until the end of the hold by the store's clock, or Unknown.
	Left time.Duration
}

// RenewRequest extends one hold.
type RenewRequest struct {
	HoldRef
	// TTL is how long the hold lives from now, in whole milliseconds, or Forever.
	TTL time.Duration
}

// RenewResult is the outcome of one RenewRequest.
type RenewResult struct {
	// Left is the time until the end of the hold by the store's clock, or Unknown.
	Left time.Duration
	// Waiters is the number of places in the queue of the resource.
	Waiters int
	// Err is nil for a renewed hold. It wraps ErrLost if the hold has expired, was released
	// or is not there. Any other error means unknown.
	Err error
}

// ReleaseRequest ends a hold, or gives up a place in the queue, or both.
type ReleaseRequest struct {
	HoldRef
	// Place, unless it is zero, is the place in the queue of the resource to give up. HoldID
	// is zero if no hold is to be released.
	Place PlaceID
	// After is how long the hold goes on blocking: its end becomes now + After, but not later
	// than it was, and it can no longer be renewed. 0 ends the hold at once.
	After time.Duration
	// Reason is set if an operator releases a hold of any client by force. A store with
	// access rights then checks for the right to do that, and records the reason. Without a
	// reason such a store releases only the caller's own holds. Other stores ignore it. With
	// a reason, After is 0.
	Reason string
}

// ReleaseResult is the outcome of one ReleaseRequest.
type ReleaseResult struct {
	// Found says that the hold was there. It does not refer to a place.
	Found bool
	// Remains says that the lock ID still has a live hold of the resource with another hold
	// ID: a program without hold IDs has renewed or retaken it. Only stores that share their
	// data with such programs set it.
	Remains bool
	// Err is nil if the hold is released, found or not. Any error means unknown.
	Err error
}
