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
	// senders is the number of senders for a server. Each has one batch under way. With
	// fewer, server and client wait for each other; with more, most batches have only one
	// request.
	senders = 8
	// maxSenders is the largest number of senders for a server that does not answer in
	// time.
	maxSenders = 64
	// stuckAfter is how long all senders may be busy without taking calls before add starts
	// another sender.
	stuckAfter = 20 * time.Millisecond
	// maxBatch is the largest number of calls in a batch.
	maxBatch = 500
	// pollEvery is the time between two polls of the callers' contexts. Replies usually
	// arrive sooner. Waiting on a context's channel needs a timer, which takes a tenth of
	// the time of a lock.
	pollEvery = 10 * time.Millisecond
	// idlePolls is the number of polls without callers after which polling ends.
	idlePolls = 20
)

var errClosed = errors.New("the store is closed")

// call is an operation on one key.
type call struct {
	key     string
	request []byte // see record.lua

	reply  any
	err    error // instead of a reply; the script may have run
	caller *caller
	server redis.UniversalClient // the server that has the key
}

// finish notes that the call has its reply or its error. A caller's last call wakes it.
func (c *call) finish() {
	if c.caller.waiting.Add(-1) == 0 {
		c.caller.wake()
	}
}

// caller waits for some calls.
type caller struct {
	ctx     context.Context
	leave   func()        // called when ctx has ended, from another goroutine
	waiting atomic.Int64  // the number of calls that are not finished
	woken   chan struct{} // has a value if all calls are finished or ctx has ended
	left    atomic.Bool   // it no longer waits, and may have cleaned up after its calls
}

func newCaller(ctx context.Context, calls []*call) *caller {
	by := &caller{ctx: ctx, woken: make(chan struct{}, 1)}
	by.waiting.Store(int64(len(calls)))
	by.leave = by.wake
	for _, c := range calls {
		c.caller = by
	}
	return by
}

func (by *caller) wake() {
	select {
	case by.woken <- struct{}{}:
	default: // it has not yet received the last value
	}
}

// pipelines sends the calls for each server in batches: while some batches are under way,
// calls gather in the next one. A server that does not answer delays only its own calls.
type pipelines struct {
	exec func(ctx context.Context, client redis.UniversalClient, batch []*call) // finishes the calls

	ctx     context.Context // the context of the senders; it ends with the store
	cancel  context.CancelFunc
	sending sync.WaitGroup
	closed  chan struct{} // closed when the last sender has ended
	polling sync.WaitGroup

	mu       sync.Mutex
	byServer map[redis.UniversalClient]*pipeline // the pipelines that have senders
	callers  []*caller                           // the callers that wait, or waited at the last poll
	polls    bool                                // a goroutine polls their contexts
}

type pipeline struct {
	queue   []*call
	senders int
	taken   time.Time // when a sender last took calls from the queue
}

func newPipelines(s *Store) *pipelines {
	ps := &pipelines{exec: s.exec, closed: make(chan struct{}),
		byServer: make(map[redis.UniversalClient]*pipeline)}
	ps.ctx, ps.cancel = context.WithCancel(context.Background())
	return ps
}

// enterAlone enters the caller if no call is queued or under way, and reports whether it
// did.
func (ps *pipelines) enterAlone(by *caller) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if len(ps.byServer) > 0 || ps.ctx.Err() != nil {
		return false
	}
	ps.enter(by)
	return true
}

// add enters the caller and queues its calls.
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
		if p.senders < senders || p.senders < maxSenders && time.Since(p.taken) > stuckAfter {
			p.senders++
			p.taken = time.Now()
			ps.sending.Go(func() { ps.send(c.server, p) })
		}
	}
	return nil
}

// send sends batches to a server until the queue is empty.
func (ps *pipelines) send(client redis.UniversalClient, p *pipeline) {
	for {
		runtime.Gosched() // callers that are about to call, for example after the last replies, join the batch
		batch := ps.take(client, p)
		if batch == nil {
			return
		}
		ps.exec(ps.ctx, client, batch)
	}
}

// take returns the next batch, or nil if the queue is empty. It drops the calls of
// callers that no longer wait: the calls would arrive after the caller's clean-up.
func (ps *pipelines) take(client redis.UniversalClient, p *pipeline) []*call {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for len(p.queue) > 0 {
		p.taken = time.Now()
		n := min(len(p.queue), maxBatch)
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

// enter adds the caller and starts to poll its context. ps.mu is held.
func (ps *pipelines) enter(by *caller) {
	ps.callers = append(ps.callers, by)
	if !ps.polls {
		ps.polls = true
		ps.polling.Go(ps.poll)
	}
}

// poll makes callers leave when their contexts have ended.
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

// close returns when no call is under way. Queued calls fail, and are not retried.
func (ps *pipelines) close() {
	ps.mu.Lock()
	ps.cancel()
	ps.mu.Unlock()
	ps.sending.Wait()
	close(ps.closed)
	ps.polling.Wait()
}

// do sends the calls and waits for their replies. If do or a call returns an error, the
// script may have run.
func (s *Store) do(ctx context.Context, calls ...*call) error {
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
	<-by.woken
	if by.waiting.Load() > 0 {
		by.left.Store(true)
		return ctx.Err()
	}
	return nil
}
