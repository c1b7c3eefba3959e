package redislock

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// senders of a server have a batch under way each. Fewer leave server and client
	// waiting for one another; more send single requests.
	senders = 8
	// mostSenders may be at work where batches hang.
	mostSenders = 64
	// stuck is for how long nothing has been sent, though all senders are at work,
	// until there is another one.
	stuck = 20 * time.Millisecond
	// longest is how many calls a batch has at most.
	longest = 500
	// pollEvery is how often the contexts of callers are polled. Replies come sooner as a
	// rule, and to ask a context for its channel takes a timer, which is a tenth of a lock's
	// time.
	pollEvery = 10 * time.Millisecond
	// idlePolls is after how many polls without callers there are none.
	idlePolls = 20
)

var errClosed = errors.New("the store is closed")

// call is an operation on one key.
type call struct {
	key       string
	arguments []byte // of the script, see fast.lua

	reply  any
	err    error // instead of a reply; leaves open whether the script ran
	caller *caller
	server redis.UniversalClient // that has the key
}

// finish notes that the call has its reply or its error.
func (c *call) finish() {
	if c.caller.waiting.Add(-1) == 0 {
		c.caller.tell()
	}
}

// caller waits for some calls.
type caller struct {
	ctx     context.Context
	leave   func()        // called when ctx has ended, from another goroutine
	waiting atomic.Int64  // calls that are not finished
	told    chan struct{} // has a value if none is left, or ctx has ended
	left    atomic.Bool   // it no longer waits, and may have cleaned up after what it asked for
}

func newCaller(ctx context.Context, calls []*call) *caller {
	by := &caller{ctx: ctx, told: make(chan struct{}, 1)}
	by.waiting.Store(int64(len(calls)))
	by.leave = by.tell
	for _, c := range calls {
		c.caller = by
	}
	return by
}

func (by *caller) tell() {
	select {
	case by.told <- struct{}{}:
	default: // it has not taken note of the last time
	}
}

// pipelines send what is asked of each server in batches: while some are under way, the
// next one gathers. What one server does not answer holds up nothing that is asked of
// another.
type pipelines struct {
	exec func(ctx context.Context, client redis.UniversalClient, batch []*call) // finishes the calls

	ctx     context.Context // of the senders, which end with the store
	cancel  context.CancelFunc
	sending sync.WaitGroup
	closed  chan struct{} // when there are no senders any more
	polling sync.WaitGroup

	mu       sync.Mutex
	byServer map[redis.UniversalClient]*pipeline // of those that have senders
	callers  []*caller                           // who wait, or did at the last poll
	polls    bool                                // a goroutine polls their contexts
}

type pipeline struct {
	queue   []*call
	senders int
	taken   time.Time // when a sender last took what is queued
}

func newPipelines(s *Store) *pipelines {
	ps := &pipelines{exec: s.exec, closed: make(chan struct{}),
		byServer: make(map[redis.UniversalClient]*pipeline)}
	ps.ctx, ps.cancel = context.WithCancel(context.Background())
	return ps
}

// alone enters a caller if nothing is asked of any server.
func (ps *pipelines) alone(by *caller) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.byServer) > 0 || ps.ctx.Err() != nil {
		return false
	}
	ps.enter(by)
	return true
}

// add enters a caller and has the calls sent.
func (ps *pipelines) add(by *caller, calls []*call) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.ctx.Err() != nil {
		return errClosed
	}
	ps.enter(by)
	for i, c := range calls {
		p := ps.byServer[c.server]
		if p == nil {
			p = &pipeline{}
			ps.byServer[c.server] = p
		}
		p.queue = append(p.queue, c)
		if i > 0 && c.server == calls[i-1].server {
			continue
		}
		if p.senders < senders || p.senders < mostSenders && time.Since(p.taken) > stuck {
			p.senders++
			p.taken = time.Now()
			ps.sending.Go(func() { ps.send(c.server, p) })
		}
	}
	return nil
}

// send sends batches to a server until nothing is left.
func (ps *pipelines) send(client redis.UniversalClient, p *pipeline) {
	for {
		runtime.Gosched() // callers who are about to ask, with the last replies for example, join the batch
		batch := ps.take(client, p)
		if batch == nil {
			return
		}
		ps.exec(ps.ctx, client, batch)
	}
}

// take returns what is to be sent next, nil for nothing. What its caller no longer waits
// for is left out: it would be late, by as much as others had to wait for.
func (ps *pipelines) take(client redis.UniversalClient, p *pipeline) []*call {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for len(p.queue) > 0 {
		p.taken = time.Now()
		n := min(len(p.queue), longest)
		batch := p.queue[:n:n]
		p.queue = p.queue[n:]
		batch = slices.DeleteFunc(batch, func(c *call) bool { return c.caller.left.Load() })
		if len(batch) > 0 {
			return batch
		}
	}
	if p.senders--; p.senders == 0 {
		delete(ps.byServer, client)
	}
	return nil
}

// enter has the caller's context polled. ps.mu is held.
func (ps *pipelines) enter(by *caller) {
	ps.callers = append(ps.callers, by)
	if !ps.polls {
		ps.polls = true
		ps.polling.Go(ps.poll)
	}
}

// poll has callers leave whose contexts have ended.
func (ps *pipelines) poll() {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for idle := 0; ; {
		select {
		case <-ticker.C:
		case <-ps.closed:
			return
		}
		var ended []*caller
		ps.mu.Lock()
		ps.callers = slices.DeleteFunc(ps.callers, func(by *caller) bool {
			if by.waiting.Load() == 0 || by.left.Load() {
				return true
			}
			if by.ctx.Err() != nil {
				ended = append(ended, by)
			}
			idle = 0
			return false
		})
		idle++
		ps.polls = idle <= idlePolls
		more := ps.polls
		ps.mu.Unlock()
		for _, by := range ended {
			by.leave()
		}
		if !more {
			return
		}
	}
}

// close returns when nothing is under way any more. What is fails, and is not tried again.
func (ps *pipelines) close() {
	ps.mu.Lock()
	ps.cancel()
	ps.mu.Unlock()
	ps.sending.Wait()
	close(ps.closed)
	ps.polling.Wait()
}

// ask has scripts run and waits for their replies. Its error, or that of a call,
// leaves open whether a script ran.
func (s *Store) ask(ctx context.Context, calls ...*call) error {
	if err := ctx.Err(); err != nil || len(calls) == 0 {
		return err
	}
	by := newCaller(ctx, calls)
	if len(calls) == 1 && s.direct != nil && s.direct.run(s, by, calls[0]) {
		if calls[0].err != nil {
			return ctx.Err()
		}
		return nil
	}
	for _, c := range calls {
		var err error
		if c.server, err = s.node(ctx, c.key); err != nil {
			return s.wrap(err)
		}
	}
	if err := s.pipelines.add(by, calls); err != nil {
		return s.wrap(err)
	}
	<-by.told
	if by.waiting.Load() > 0 {
		by.left.Store(true)
		return ctx.Err()
	}
	return nil
}
