package holdfast

import (
	"context"
	"time"
)

// Trace observes what a Client does. Functions that are nil are not called. Apart from
// ClientStart, one goroutine calls the others and Options.Logger, one call at a time, in
// the order in which things happened and a little later. So they delay no lock, however
// long they take. If 10,000 calls wait, further ones are left out, and a warning says how
// many. Close waits for the calls, within its 5 s, so they must not call Close. A panic in
// a function ends the program.
//
// Because the functions are called later, the times of what happened are in the infos.
// The ctx of a function has the values of the ctx that Lock, RLock, TryLock or TryRLock
// was called with, but does not end with that. A Start function returns the ctx of the
// functions that follow it: usually one that it has derived from its own, such as that
// of a span; nil stands for its own. If a call of a Start function was left out, those
// that follow get the ctx that it would have had. No other code gets these ctxs.
type Trace struct {
	// ClientStart: New or Open makes a Client. It calls this function at once, and waits
	// for it. So an observer knows the Client, and can ask it for what Live and Waiting
	// return, also while a slow Logger or function delays all the others.
	ClientStart func(*Client)
	// AttemptStart: an acquire is sent to a store. The returned ctx is for AttemptEnd.
	AttemptStart func(context.Context, AttemptInfo) context.Context
	// AttemptEnd: the store answered, or did not answer, an acquire.
	AttemptEnd func(context.Context, AttemptInfo)
	// WaitStart: a Lock or RLock waits, because its first attempt was refused or because it
	// queues behind another of the same Client. The returned ctx is for the attempts that
	// follow, for WaitEnd and for HoldStart.
	WaitStart func(context.Context, WaitInfo) context.Context
	// WaitEnd: a wait has ended.
	WaitEnd func(context.Context, WaitInfo)
	// HoldStart: a lock was granted. The returned ctx is for the functions below except
	// Failed.
	HoldStart func(context.Context, HoldInfo) context.Context
	// HoldEnd: the holder no longer has the lock, and the context of the hold has ended:
	// the lock was lost, or its release begins. It is called once for each hold.
	HoldEnd func(context.Context, HoldInfo)
	// Renewed: a renewal was answered, or was not: it will be repeated until the hold's
	// deadline.
	Renewed func(context.Context, CallInfo)
	// Released: a release was answered, or given up. It follows HoldEnd, once for each
	// Unlock that sends one. A hold that was lost is released without a call.
	Released func(context.Context, CallInfo)
	// Failed: a Lock, RLock, TryLock or TryRLock returns an error, and was granted nothing.
	Failed func(context.Context, FailInfo)
}

// LockInfo says which lock a function of Trace is called for.
type LockInfo struct {
	Client           *Client
	Resource, LockID string
	Mode             Mode
}

// AttemptInfo is one acquire of a store. Start functions get it without Took, Token and Err.
type AttemptInfo struct {
	LockInfo
	// HoldID is that of the hold if the attempt is granted. A repeat of an attempt without
	// an answer has the same.
	HoldID HoldID
	Start  time.Time
	Took   time.Duration
	// Token is that of the grant.
	Token uint64
	// Err is nil for a grant. For a refusal it is a *HeldError, which names the holders
	// and the position in the queue, and must not be changed. It is ErrClosed if Close
	// ended the attempt. Any other error means that the outcome is unknown, or that the
	// store refused for another reason.
	Err error
}

// WaitInfo is one wait for a resource. Start functions, and Admin.Waiting, have it without
// Took and Err.
type WaitInfo struct {
	LockInfo
	// Start is when the first attempt was refused, or when the caller queued behind
	// another.
	Start time.Time
	Took  time.Duration
	Err   error // nil: it was granted
}

// HoldInfo is a hold. Start functions get it without Took and Err.
type HoldInfo struct {
	Hold  *Hold
	Start time.Time     // when the grant arrived
	Took  time.Duration // from Start until its context ended
	// Err is ErrReleased, ErrClosed or a *LostError, as the cause of the hold's context.
	Err error
}

// CallInfo is one renewal of a hold, or its release with all repeats.
type CallInfo struct {
	Hold  *Hold
	Start time.Time // when it was sent
	Took  time.Duration
	// Err is nil if the store has confirmed it. It is a *LostError if a renewal found that the
	// lock was lost, or if the lock was released but another program has retaken it with the
	// same lock ID. Any other error means that the store did not confirm it: a renewal is
	// repeated until the hold's deadline, and a hold that was not released ends by itself.
	Err error
}

// FailInfo is a call of Lock, RLock, TryLock or TryRLock that was granted nothing.
type FailInfo struct {
	LockInfo
	Start time.Time // when it was called
	Took  time.Duration
	// Err is the caller's error, or equal to it: it must not be changed, but the caller may
	// change a *HeldError.
	Err error
	// Asked: the call, or one of the same Client that it queued behind, asked the store. If
	// not, Err says nothing about the store: the ctx had ended before, for example.
	Asked bool
}

// Traces returns a Trace that calls the functions of all given ones, in their order. Those
// that are nil are left out. A Start function gets the ctx that the one before it
// returned.
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
