package redislock

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// senders of a lane are enough to have the next pipeline ready while the server
	// works on one.
	senders = 2
	// mostSenders may be at work where pipelines hang.
	mostSenders = 64
	// stuck is how long no pipeline has been sent for, with something to send and
	// all senders at work, until there is another sender.
	stuck = 20 * time.Millisecond
	// longest is how many scripts a pipeline has at most.
	longest = 500
)

// call is one script that is asked of a server.
type call struct {
	script  *script
	key     string
	args    []any
	durable bool // must be on replicas, if any are to be waited for
	once    bool // must not be sent again by the client

	cmd  *redis.Cmd
	err  error         // why cmd does not count
	done chan struct{} // closed when cmd has its reply
}

// lanes are a lane for each server. What has no answer from one server holds up
// nothing that is asked of another.
type lanes struct {
	exec func(ctx context.Context, client redis.UniversalClient, batch []*call)

	ctx     context.Context // of the senders, which end with the store
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	byServer map[redis.UniversalClient]*lane
}

var errClosed = errors.New("the store is closed")

func newLanes(exec func(ctx context.Context, client redis.UniversalClient, batch []*call)) *lanes {
	l := &lanes{exec: exec, byServer: make(map[redis.UniversalClient]*lane)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// add hands the calls to the server's lane.
func (l *lanes) add(client redis.UniversalClient, calls []*call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return errClosed
	}
	at := l.byServer[client]
	if at == nil {
		at = &lane{lanes: l, client: client, wake: make(chan struct{}, senders)}
		l.byServer[client] = at
	}
	at.add(calls)
	return nil
}

// close ends the senders. What is under way is not tried again.
func (l *lanes) close() {
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	l.running.Wait()
}

// lane sends what is asked of one server in pipelines: while some are under way,
// the next one gathers. Its goroutines stay until the store is closed, for to
// start one takes a noticeable part of a request's time.
type lane struct {
	*lanes
	client redis.UniversalClient

	mu      sync.Mutex
	queue   []*call
	senders int
	idle    int           // of the senders
	wake    chan struct{} // has a value for each that is no longer idle
	taken   time.Time     // when a sender last took what is queued
}

func (l *lane) add(calls []*call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, calls...)
	switch {
	case l.idle > 0:
		l.idle--
		l.wake <- struct{}{}
	case l.senders < senders, l.senders < mostSenders && time.Since(l.taken) > stuck:
		l.senders++
		l.taken = time.Now()
		l.running.Go(l.send)
	}
}

func (l *lane) send() {
	for many := false; ; {
		if many {
			runtime.Gosched() // whoever is about to ask, of those that the last replies let go on, joins in
		}
		batch := l.take()
		if batch == nil {
			return
		}
		if len(batch) > 0 {
			l.exec(l.ctx, l.client, batch)
			many = len(batch) > 1
			continue
		}
		select {
		case <-l.wake:
		case <-l.ctx.Done():
		}
	}
}

// take returns what is to be sent next: nothing, if the sender has become idle,
// and nil if it is no longer needed.
func (l *lane) take() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), longest)
	if n == 0 {
		if l.senders > senders || l.ctx.Err() != nil {
			l.senders--
			return nil
		}
		l.idle++
		return []*call{}
	}
	l.taken = time.Now()
	batch := l.queue[:n:n]
	l.queue = l.queue[n:]
	return batch
}

// ask has scripts run and waits for their replies. Its error, or that of a call,
// leaves open whether a script ran.
func (s *Store) ask(ctx context.Context, calls ...*call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, c := range calls {
		c.done = make(chan struct{})
	}
	if err := s.hand(ctx, calls); err != nil {
		return s.wrap(err)
	}
	for _, c := range calls {
		select {
		case <-c.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// hand gives each call to the lane of the server that has its key.
func (s *Store) hand(ctx context.Context, calls []*call) error {
	if s.cluster == nil {
		return s.lanes.add(s.client, calls)
	}
	byServer := make(map[redis.UniversalClient][]*call)
	for _, c := range calls {
		master, err := s.cluster.MasterForKey(ctx, c.key)
		if err != nil {
			return err
		}
		byServer[master] = append(byServer[master], c)
	}
	for master, some := range byServer {
		if err := s.lanes.add(master, some); err != nil {
			return err
		}
	}
	return nil
}

// result is the reply to a call that is done.
func (c *call) result() (any, error) {
	if c.err != nil {
		return nil, c.err
	}
	return c.cmd.Result()
}
