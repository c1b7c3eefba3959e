package holdfast

import (
	"context"
	"time"
)

// Trace is a set of functions that a Client calls to report what it does. Any of them may be
// nil.
//
// One goroutine calls all functions but ClientStart, and Options.Logger, one call at a time
// and in the order of the events, but a little later: the times of the events are in the
// infos. So a slow function does not delay a lock. While 10,000 calls are pending, further
// calls are left out, and a warning says how many. Close waits for the calls within its 5 s,
// so they must not call Close. A panic in a function ends the program.
//
// The ctx of a function has the values of the ctx of Lock, RLock, TryLock or TryRLock, but
// does not end with that ctx. A Start function returns the ctx for the functions that follow
// it, usually derived from its own, such as the ctx of a span. It may return nil to pass its
// own ctx on. If a call of a Start function was left out, the functions that follow get the
// ctx that it would have had. No other code gets these contexts.
type Trace struct {
	// ClientStart is called by New or Open for the new Client, which waits for it to
	// return. With the Client, an observer can call Admin.Live and Admin.Waiting at any
	// time, also while a slow Logger or function delays the other calls.
	ClientStart func(*Client)

	// AttemptStart is called when an acquire is sent to the store. The returned ctx is for
	// AttemptEnd.
	AttemptStart func(context.Context, AttemptInfo) context.Context

	// AttemptEnd is called when the store has answered an acquire, or has failed to.
	AttemptEnd func(context.Context, AttemptInfo)

	// WaitStart is called when a Lock or RLock begins to wait, because its first attempt was
	// refused or because it queues behind another call of the same Client. The returned ctx
	// is for the attempts that follow, for WaitEnd and for HoldStart.
	WaitStart func(context.Context, WaitInfo) context.Context

	// WaitEnd is called when a wait has ended.
	WaitEnd func(context.Context, WaitInfo)

	// HoldStart is called when a lock was granted. The returned ctx is for HoldEnd, Renewed
	// and Released.
	HoldStart func(context.Context, HoldInfo) context.Context

	// HoldEnd is called once for each hold, after its context has ended: the lock was lost,
	// or its release begins.
	HoldEnd func(context.Context, HoldInfo)

	// Renewed is called after each renewal, with or without an answer. The Client repeats
	// a renewal without an answer until the hold's deadline.
	Renewed func(context.Context, CallInfo)

	// Released is called after HoldEnd, once for each Unlock that sends a release, when
	// the release was answered or the Client gave up. It is not called for the release of a
	// lost hold.
	Released func(context.Context, CallInfo)

	// Failed is called when a Lock, RLock, TryLock or TryRLock was not granted the lock and
	// returns an error.
	Failed func(context.Context, FailInfo)
}

// LockInfo is the lock that a function of Trace is called for.
type LockInfo struct {
	Client           *Client
	Resource, LockID string
	Mode             Mode
}

// AttemptInfo is one acquire of a store. AttemptStart gets it without Took, Token and Err.
type AttemptInfo struct {
	LockInfo
	// HoldID is the ID of the hold if the attempt is granted. An attempt that repeats an
	// unanswered one has the same ID.
	HoldID HoldID
	Start  time.Time // when it was sent
	Took   time.Duration
	// Token is the fencing token of the grant.
	Token uint64
	// Err is nil for a grant. For a refusal it is a *HeldError, which has the holders and
	// the position in the queue and must not be changed. It is ErrClosed if Close ended the
	// attempt. Any other error means that the outcome is unknown, or that the store refused
	// for another reason.
	Err error
}

// WaitInfo is one wait for a resource. WaitStart and Admin.Waiting have it without Took and
// Err.
type WaitInfo struct {
	LockInfo
	// Start is when the first attempt was refused, or when the caller queued behind
	// another one.
	Start time.Time
	Took  time.Duration
	Err   error // nil if the lock was granted
}

// HoldInfo is a hold. HoldStart gets it without Took and Err.
type HoldInfo struct {
	Hold  *Hold
	Start time.Time     // when the grant arrived
	Took  time.Duration // from Start until the context of the hold ended
	// Err is the cause of the end of the hold's context: ErrReleased, ErrClosed or a
	// *LostError.
	Err error
}

// CallInfo is one renewal of a hold, or the release of a hold with all its repeats.
type CallInfo struct {
	Hold  *Hold
	Start time.Time // when it was sent
	Took  time.Duration
	// Err is nil if the store has confirmed the call. It is a *LostError if a renewal found
	// that the lock was lost, or if the lock was released but another program has retaken it
	// with the same lock ID. Any other error means that the store has not confirmed the
	// call: the Client repeats a renewal until the hold's deadline, and a hold that was not
	// released expires.
	Err error
}

// FailInfo is a call of Lock, RLock, TryLock or TryRLock that was granted nothing.
type FailInfo struct {
	LockInfo
	Start time.Time // when it was called
	Took  time.Duration
	// Err is equal to the error that the caller gets. It must not be changed.
	Err error
	// Asked reports whether the store was asked, by this call or by a call of the same Client
	// that it queued behind. Otherwise Err says nothing about the store: the ctx had ended
	// before, for example.
	Asked bool
}

// Traces returns a Trace that calls the functions of all given Traces, in their order. Nil
// Traces are ignored. A Start function gets the ctx that the previous one returned.
func Traces(all ...*Trace) *Trace {
	var joined Trace
	for _, t := range all {
		if t == nil {
			continue
		}
		joined = Trace{
			ClientStart:  bothClients(joined.ClientStart, t.ClientStart),
			AttemptStart: bothStart(joined.AttemptStart, t.AttemptStart),
			AttemptEnd:   both(joined.AttemptEnd, t.AttemptEnd),
			WaitStart:    bothStart(joined.WaitStart, t.WaitStart),
			WaitEnd:      both(joined.WaitEnd, t.WaitEnd),
			HoldStart:    bothStart(joined.HoldStart, t.HoldStart),
			HoldEnd:      both(joined.HoldEnd, t.HoldEnd),
			Renewed:      both(joined.Renewed, t.Renewed),
			Released:     both(joined.Released, t.Released),
			Failed:       both(joined.Failed, t.Failed),
		}
	}
	return &joined
}

func bothStart[I any](one, other func(context.Context, I) context.Context) func(context.Context, I) context.Context {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	}
	return func(ctx context.Context, info I) context.Context {
		if derived := one(ctx, info); derived != nil {
			ctx = derived
		}
		if derived := other(ctx, info); derived != nil {
			ctx = derived
		}
		return ctx
	}
}

func bothClients(one, other func(*Client)) func(*Client) {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	}
	return func(c *Client) {
		one(c)
		other(c)
	}
}

func both[I any](one, other func(context.Context, I)) func(context.Context, I) {
	switch {
	case one == nil:
		return other
	case other == nil:
		return one
	}
	return func(ctx context.Context, info I) {
		one(ctx, info)
		other(ctx, info)
	}
}
