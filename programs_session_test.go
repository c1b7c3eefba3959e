package holdfast_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
)

// session is a lock and its use.
type session struct {
	r     *run
	n     *node
	name  string
	rnd   *rand.Rand
	outer *holding // the hold that the ctx is bound to, or nil
	ends  []func() // cancel functions of bound contexts
}

func (s *session) one(in int) bool { return s.rnd.IntN(in) == 0 }

// request returns a random call of Lock.
func (s *session) request() *call {
	c := &call{name: s.name, node: s.n, resource: s.r.resource(s.rnd), waits: !s.one(4), began: time.Now()}
	o := &holdfast.LockOptions{Comment: s.name, Fair: s.one(2), NoKeepAlive: s.one(5)}
	switch n := s.rnd.IntN(10); {
	case n < 5:
		o.TTL = holdfast.MinTTL + upTo(s.rnd, 5*time.Second)
	case n < 6:
		o.TTL = holdfast.MinTTL + upTo(s.rnd, longestTTL-time.Second)
	case n < 7 && !s.n.leaves:
		o.TTL = holdfast.Forever
	}
	if s.one(4) {
		o.LockID = sharedID(s.rnd)
	}
	if s.one(4) {
		o.TakeoverDelay = upTo(s.rnd, longestDelay-time.Millisecond)
	}
	if s.one(3) {
		c.mode = holdfast.Shared
		o.Limit = int(c.resource[1] - '0') // r0 has no limit
		if s.one(8) {
			o.Limit = s.rnd.IntN(4)
		}
	}
	c.opts = o
	return c
}

// play acquires a lock and uses it.
func (s *session) play(ctx context.Context) {
	c := s.request()
	cancel := func() {}
	switch n := s.rnd.IntN(12); {
	case n == 0:
		ctx, cancel = context.WithTimeout(ctx, -1)
	case n < 8 || s.outer != nil:
		ctx, cancel = context.WithTimeout(ctx, upTo(s.rnd, 20*time.Second))
	}
	defer cancel()
	c.ctx = ctx
	if c.mode == holdfast.Exclusive && s.one(4) {
		s.do(c)
		return
	}
	h, err := s.lock(c)
	s.judge("lock", c, err)
	if err != nil {
		return
	}
	s.use(s.r.ctx, h)
	s.unlock(h)
}

// judge judges the error of a lock.
func (s *session) judge(what string, c *call, err error) {
	var may []error
	again := s.outer != nil && s.outer.hold.Resource() == c.resource && s.outer.node == s.n
	if !c.waits || c.opts.LockID != "" || again {
		may = append(may, holdfast.ErrHeld)
	}
	if c.opts.TTL == holdfast.Forever {
		may = append(may, holdfast.ErrLost, holdfast.ErrReleased)
	}
	s.r.outcome(s.name+": "+what, s.n, c.began, c.ctx, err, may...)
	if err == nil && again && s.outer.hold.Left() > 0 && !s.outer.foreign {
		s.r.wrong("reentry: %s was granted %q within its own hold", s.name, c.resource)
	}
	var held *holdfast.HeldError
	if errors.As(err, &held) && held.BySelf && c.opts.LockID == "" && !again {
		s.r.wrong("error: %s: %q is held by itself", s.name, c.resource)
	}
}

// lock is Lock, RLock, TryLock or TryRLock.
func (s *session) lock(c *call) (*holding, error) {
	lock := s.n.client.Lock
	switch {
	case c.waits && c.mode == holdfast.Shared:
		lock = s.n.client.RLock
	case c.mode == holdfast.Shared:
		lock = s.n.client.TryRLock
	case !c.waits:
		lock = s.n.client.TryLock
	}
	s.r.begin(c)
	h, err := lock(c.ctx, c.resource, c.opts)
	s.r.end(c)
	if err != nil {
		return nil, err
	}
	return s.r.believe(c, h), nil
}

// do is Do or TryDo.
func (s *session) do(c *call) {
	do := s.n.client.Do
	if !c.waits {
		do = s.n.client.TryDo
	}
	s.r.begin(c)
	var h *holding
	err := do(c.ctx, c.resource, c.opts, func(ctx context.Context) error {
		s.r.end(c)
		s.n.doing.Add(1)
		defer s.n.doing.Add(-1)
		h = s.r.believe(c, holdfast.HoldOf(ctx))
		s.r.bound(h, ctx)
		s.use(ctx, h)
		return nil
	})
	if h == nil {
		s.r.end(c)
		s.judge("Do", c, err)
		return
	}
	for _, end := range s.ends {
		end()
	}
	s.r.outcome(s.name+": end of Do", s.n, h.since, nil, err, holdfast.ErrLost, holdfast.ErrReleased)
	s.r.over(s.name, h)
}

// use does something under the hold.
func (s *session) use(ctx context.Context, h *holding) {
	for range s.rnd.IntN(4) {
		wait, began := upTo(s.rnd, 3*time.Second), time.Now()
		if s.one(8) {
			wait *= 10
		}
		select {
		case <-after(wait):
		case <-ctx.Done():
		case <-s.endOf(h):
		}
		short, cancel := context.WithTimeout(s.r.ctx, upTo(s.rnd, 5*time.Second))
		ttl := holdfast.MinTTL + upTo(s.rnd, 5*time.Second)
		over := []error{holdfast.ErrLost, holdfast.ErrReleased}
		switch s.rnd.IntN(6) {
		case 0:
			s.r.outcome(s.name+": Renew", s.n, began, short, h.hold.Renew(short, 0), over...)
		case 1:
			if !s.n.leaves && s.one(3) {
				ttl = holdfast.Forever
			}
			s.r.outcome(s.name+": Renew", s.n, began, short, h.hold.Renew(short, ttl), over...)
		case 2:
			_, err := s.n.client.Admin().RenewID(short, h.hold.LockID(), ttl)
			s.r.outcome(s.name+": RenewID", s.n, began, short, err, over...)
		case 3:
			bound, end := h.hold.Bind(s.r.ctx)
			s.r.bound(h, bound)
			if s.outer == nil && s.one(2) {
				inner := session{r: s.r, n: s.n, name: s.name + "'", rnd: s.rnd, outer: h}
				inner.play(bound)
				end()
			} else {
				s.ends = append(s.ends, end) // after the release
			}
		}
		cancel()
	}
}

// endOf returns what a holder listens to: the end of the hold, Wanted, or nothing.
func (s *session) endOf(h *holding) <-chan struct{} {
	switch s.rnd.IntN(3) {
	case 0:
		return h.contexts[0].Done()
	case 1:
		return h.hold.Wanted()
	}
	return nil
}

// unlock releases the hold in one of several ways.
func (s *session) unlock(h *holding) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(s.r.ctx, upTo(s.rnd, 5*time.Second))
	defer cancel()
	for _, end := range s.ends {
		defer end()
	}
	if s.n.percent > 0 && s.one(10) {
		s.n.outage(upTo(s.rnd, 15*time.Second))
	}
	admin := s.n.client.Admin()
	var twice sync.WaitGroup
	switch s.rnd.IntN(12) {
	case 0:
		_, err := admin.ReleaseID(ctx, h.hold.LockID())
		s.r.outcome(s.name+": ReleaseID", s.n, began, ctx, err)
	case 1:
		s.n.forcing.Add(1)
		_, err := admin.ForceRelease(ctx, h.hold.Resource(), h.hold.ID())
		s.n.forcing.Add(-1)
		s.r.outcome(s.name+": ForceRelease", s.n, began, ctx, err)
	case 2:
		other := s.r.slots[s.rnd.IntN(len(s.r.slots))].Load()
		_, err := other.client.Admin().ForceRelease(ctx, h.hold.Resource(), h.hold.ID())
		s.r.outcome(s.name+": ForceRelease", other, began, ctx, err)
	case 3:
		s.r.outcome(s.name+": UnlockAfter", s.n, began, nil, h.hold.UnlockAfter(ctx, upTo(s.rnd, 2*time.Second)), holdfast.ErrLost)
		s.r.within(s.name+": UnlockAfter", began, s.n.stalled(began))
	case 4:
		twice.Go(func() { _ = h.hold.Unlock(ctx) })
	case 5:
		select {
		case <-after(longestTTL):
		case <-h.contexts[0].Done():
		}
	}
	began = time.Now()
	s.r.outcome(s.name+": Unlock", s.n, began, nil, h.hold.Unlock(ctx), holdfast.ErrLost)
	s.r.within(s.name+": Unlock", began, s.n.stalled(began))
	s.r.over(s.name, h)
	twice.Wait()
}
