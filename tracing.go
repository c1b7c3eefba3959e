package holdfast

import (
	"context"
	"time"
)

// This file calls the functions of Options.Trace. Without one, acquirer.scope and
// Hold.traced are nil, and nothing here costs anything.

// isSet reports whether any function is that is called for a lock.
func (t *Trace) isSet() bool {
	return t.AttemptStart != nil || t.AttemptEnd != nil || t.WaitStart != nil || t.WaitEnd != nil ||
		t.HoldStart != nil || t.HoldEnd != nil || t.Renewed != nil || t.Released != nil || t.Failed != nil
}

// scope has the ctx that functions of a Trace get: that of a lock, and within it those of
// a wait, an attempt or a hold. Only the notifier sets and reads it.
type scope struct {
	outer *scope
	ctx   context.Context // nil: that of outer
}

func (s *scope) context() context.Context {
	for s.ctx == nil {
		s = s.outer
	}
	return s.ctx
}

// started queues the call of a Start function, and returns the scope of those that follow.
func started[I any](c *Client, outer *scope, fn func(context.Context, I) context.Context, info I) *scope {
	if fn == nil {
		return outer
	}
	s := &scope{outer: outer}
	c.notifier.Add(func() { s.ctx = fn(outer.context(), info) })
	return s
}

// happened queues the call of any other function.
func happened[I any](c *Client, s *scope, fn func(context.Context, I), info I) {
	if fn != nil {
		c.notifier.Add(func() { fn(s.context(), info) })
	}
}

// wall converts a time of the Client's clock.
func (c *Client) wall(at time.Duration) time.Time { return time.Now().Add(at - c.clock()) }

func (a *acquirer) info() LockInfo {
	return LockInfo{Client: a.c, Resource: a.q.Resource, LockID: a.q.LockID, Mode: a.q.Mode}
}

// tracedAttempt is an attempt that a Trace observes. nil: there is no Trace.
type tracedAttempt struct {
	scope *scope
	info  AttemptInfo
}

func (a *acquirer) attemptStart(sent time.Duration) *tracedAttempt {
	if a.scope == nil {
		return nil
	}
	t := &tracedAttempt{info: AttemptInfo{LockInfo: a.info(), HoldID: a.q.HoldID, Start: a.c.wall(sent)}}
	t.scope = started(a.c, a.scope, a.c.trace.AttemptStart, t.info)
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
	happened(c, t.scope, c.trace.AttemptEnd, info)
}

// waitStart notes that the acquirer waits since then. c.mu is held.
func (a *acquirer) waitStart(since time.Duration) {
	if a.waits {
		return
	}
	a.waits, a.waitsSince = true, since
	if a.scope != nil {
		a.scope = started(a.c, a.scope, a.c.trace.WaitStart, a.waitInfo())
	}
}

func (a *acquirer) waitInfo() WaitInfo {
	return WaitInfo{LockInfo: a.info(), Start: a.c.wall(a.waitsSince)}
}

// waitEnd notes that the acquirer waits no longer, if it did. c.mu is held, or it is in
// no queue.
func (a *acquirer) waitEnd(err error) {
	if !a.waits {
		return
	}
	a.waits = false
	if a.scope != nil {
		info := a.waitInfo()
		info.Took, info.Err = a.c.clock()-a.waitsSince, err
		happened(a.c, a.scope, a.c.trace.WaitEnd, info)
	}
}

// failed tells that the acquirer was granted nothing, and returns the error for the
// caller. It is in no queue any more.
func (a *acquirer) failed(began time.Duration, err error) error {
	a.waitEnd(err)
	if a.scope == nil {
		return err
	}
	info := FailInfo{LockInfo: a.info(), Start: a.c.wall(began), Took: a.c.clock() - began, Err: err, Asked: a.asked}
	happened(a.c, a.scope, a.c.trace.Failed, info)
	return ownError(err)
}

// ownError returns an equal error that the caller may change, while a Trace looks at err.
func ownError(err error) error {
	if e, ok := err.(*HeldError); ok { //nolint:errorlint // what wraps it cannot be copied
		return copyOf(e)
	}
	return err
}

// tracedHold is what a Trace needs of a hold.
type tracedHold struct {
	scope   *scope
	info    HoldInfo
	granted time.Duration
}

// holdStart tells of a grant. c.mu is held.
func (h *Hold) holdStart(a *acquirer) {
	a.waitEnd(nil)
	if a.scope == nil {
		return
	}
	t := &tracedHold{info: HoldInfo{Hold: h, Start: h.client.wall(a.heard)}, granted: a.heard}
	t.scope = started(h.client, a.scope, h.client.trace.HoldStart, t.info)
	h.traced = t
}

// holdEnd tells why the hold has ended. c.mu is held.
func (h *Hold) holdEnd() {
	if t := h.traced; t != nil {
		info := t.info
		info.Took, info.Err = h.client.clock()-t.granted, h.ended
		happened(h.client, t.scope, h.client.trace.HoldEnd, info)
	}
}

// tellRenewed tells of the answer to a renewal. c.mu is held.
func (h *Hold) tellRenewed(sent, now time.Duration, err error) {
	if t, c := h.traced, h.client; t != nil && h.ended == nil { // else HoldEnd was told
		happened(c, t.scope, c.trace.Renewed, CallInfo{Hold: h, Start: c.wall(sent), Took: now - sent, Err: err})
	}
}

// tellReleased tells of the answer to a release. c.mu is held.
func (h *Hold) tellReleased(began time.Duration, err error) {
	if t, c := h.traced, h.client; t != nil {
		happened(c, t.scope, c.trace.Released, CallInfo{Hold: h, Start: c.wall(began), Took: c.clock() - began, Err: err})
	}
}
