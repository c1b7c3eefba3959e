package holdfast

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/internal/lease"
	"github.com/holdfast-go/holdfast/internal/waitline"
)

// This file calls the functions of Options.Trace. Without one, acquirer.span and
// Hold.traced are nil, and nothing here costs anything.

// isSet reports whether any function is set that is called for a lock.
func (t *Trace) isSet() bool {
	return t.AttemptStart != nil || t.AttemptEnd != nil || t.WaitStart != nil || t.WaitEnd != nil ||
		t.HoldStart != nil || t.HoldEnd != nil || t.Renewed != nil || t.Released != nil || t.Failed != nil
}

// span has the ctx for functions of a Trace: of a lock and, within it, of a wait, an attempt
// or a hold. Only functions that Client.tell calls set and read it.
type span struct {
	outer *span
	ctx   context.Context // nil: the ctx of outer
}

func (s *span) context() context.Context {
	for s.ctx == nil {
		s = s.outer
	}
	return s.ctx
}

// started queues the call of a Start function and returns the span for the calls that follow.
func started[I any](c *Client, outer *span, fn func(context.Context, I) context.Context, info I) *span {
	if fn == nil {
		return outer
	}
	s := &span{outer: outer}
	c.tell.Add(func() { s.ctx = fn(outer.context(), info) })
	return s
}

// happened queues the call of any other function.
func happened[I any](c *Client, s *span, fn func(context.Context, I), info I) {
	if fn != nil {
		c.tell.Add(func() { fn(s.context(), info) })
	}
}

// wall converts a time of the Client's clock to the time of day.
func (c *Client) wall(at time.Duration) time.Time { return time.Now().Add(at - c.clock()) }

func (a *acquirer) info() LockInfo {
	return LockInfo{Client: a.c, Resource: a.q.Resource, LockID: a.q.LockID, Mode: a.q.Mode}
}

// tracedAttempt is the part of an attempt that a Trace needs. It is nil without a Trace.
type tracedAttempt struct {
	span *span
	info AttemptInfo
}

func (a *acquirer) attemptStart(sent time.Duration) *tracedAttempt {
	if a.span == nil {
		return nil
	}
	t := &tracedAttempt{info: AttemptInfo{LockInfo: a.info(), HoldID: a.q.HoldID, Start: a.c.wall(sent)}}
	t.span = started(a.c, a.span, a.c.trace.AttemptStart, t.info)
	return t
}

func (t *tracedAttempt) end(took time.Duration, token uint64, err error) {
	if t == nil {
		return
	}
	c := t.info.Client
	if err != nil {
		err = c.closedOr(err)
	}
	info := t.info
	info.Took, info.Token, info.Err = took, token, err
	happened(c, t.span, c.trace.AttemptEnd, info)
}

// waitStart notes that the acquirer has been waiting since the given time.
func (a *acquirer) waitStart(since time.Duration) {
	if a.waits {
		return
	}
	a.waits, a.waitsSince = true, since
	if a.span != nil {
		a.span = started(a.c, a.span, a.c.trace.WaitStart, a.waitInfo(since))
	}
}

func (a *acquirer) waitInfo(since time.Duration) WaitInfo {
	return WaitInfo{LockInfo: a.info(), Start: a.c.wall(since)}
}

// waitEnd notes that the acquirer no longer waits. It does nothing if it did not wait.
func (a *acquirer) waitEnd(err error) {
	if !a.waits {
		return
	}
	a.waits = false
	if a.span != nil {
		info := a.waitInfo(a.waitsSince)
		info.Took, info.Err = a.c.clock()-a.waitsSince, err
		happened(a.c, a.span, a.c.trace.WaitEnd, info)
	}
}

// failed reports to the Trace that the acquirer was granted nothing, and returns the error
// for the caller.
func (a *acquirer) failed(began time.Duration, err error) error {
	a.waitEnd(err)
	if a.span == nil {
		return err
	}
	info := FailInfo{LockInfo: a.info(), Start: a.c.wall(began), Took: a.c.clock() - began, Err: err, Asked: a.asked}
	happened(a.c, a.span, a.c.trace.Failed, info)
	return ownError(err)
}

// ownError returns a copy of err that the caller may change while a Trace or another caller
// reads err.
func ownError(err error) error {
	if e, ok := err.(*HeldError); ok { //nolint:errorlint // an error that wraps it cannot be copied
		return waitline.CopyOf(e)
	}
	return err
}

// tracedHold is the part of a hold that a Trace needs.
type tracedHold struct {
	span    *span
	info    HoldInfo
	granted time.Duration
}

// holdStarted reports a grant to the Trace.
func (c *Client) holdStarted(l *lease.Lease) {
	h := holdOf(l)
	a := h.acquirer
	a.waitEnd(nil)
	if a.span == nil {
		return
	}
	t := &tracedHold{info: HoldInfo{Hold: h, Start: c.wall(a.heard)}, granted: a.heard}
	t.span = started(c, a.span, c.trace.HoldStart, t.info)
	h.traced = t
}

// holdEnded reports to the Trace why the hold has ended.
func (c *Client) holdEnded(l *lease.Lease, cause error) {
	if t := holdOf(l).traced; t != nil {
		info := t.info
		info.Took, info.Err = c.clock()-t.granted, cause
		happened(c, t.span, c.trace.HoldEnd, info)
	}
}

// tellRenewed reports the result of a renewal to the Trace.
func (h *Hold) tellRenewed(sent, now time.Duration, err error) {
	if t, c := h.traced, h.client; t != nil {
		happened(c, t.span, c.trace.Renewed, CallInfo{Hold: h, Start: c.wall(sent), Took: now - sent, Err: err})
	}
}

// tellReleased reports the result of a release to the Trace.
func (h *Hold) tellReleased(began time.Duration, err error) {
	if t, c := h.traced, h.client; t != nil {
		happened(c, t.span, c.trace.Released, CallInfo{Hold: h, Start: c.wall(began), Took: c.clock() - began, Err: err})
	}
}
