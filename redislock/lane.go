package redislock

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// senders of a lane have a pipeline under way each. Fewer leave server and client
	// waiting for one another; more send single requests.
	senders = 8
	// mostSenders may be at work where pipelines hang.
	mostSenders = 64
	// stuck is how long no pipeline has been sent for, with something to send and
	// all senders at work, until there is another sender.
	stuck = 20 * time.Millisecond
	// longest is how many calls a pipeline has at most.
	longest = 500
)

// call is what is asked of a server about one key.
type call struct {
	script *script
	terms  terms
	key    string
	item   []byte // what the script is told for this key
	// written reports whether a reply tells of what the script wrote, which must be on
	// the replicas if any are waited for; nil: that does not matter.
	written func(reply any) bool

	reply  any
	err    error   // instead of a reply; leaves open whether the script ran
	waiter *waiter // is told that one of both is there
}

// changed reports whether the call did what must be on the replicas. A refusal, or that
// a hold is lost, is true without them.
func (c *call) changed() bool { return c.err == nil && c.written != nil && c.written(c.reply) }

// lanes are a lane for each server. What has no answer from one server holds up
// nothing that is asked of another.
type lanes struct {
	run   func(ctx context.Context, client redis.UniversalClient, batch []*call) // asks that server
	exec  func(ctx context.Context, client redis.UniversalClient, batch []*call) // and others; ends the calls
	link  func(to redis.UniversalClient) *link                                   // nil: there are no links
	pulse pulse

	ctx     context.Context // of the senders, which end with the store
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	byServer map[redis.UniversalClient]*lane
}

var errClosed = errors.New("the store is closed")

func newLanes(s *Store) *lanes {
	l := &lanes{run: s.run, exec: s.exec, byServer: make(map[redis.UniversalClient]*lane)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.pulse.each, l.pulse.closed = l.look, make(chan struct{})
	return l
}

// look finds what takes long on links.
func (l *lanes) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, at := range l.byServer {
		if at.link != nil {
			at.link.beat()
		}
	}
}

// to is the lane to a server, and whether it is new.
func (l *lanes) to(client redis.UniversalClient) (at *lane, made bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, false, errClosed
	}
	at = l.byServer[client]
	if at == nil {
		made = true
		at = &lane{lanes: l, client: client, wake: make(chan struct{}, senders)}
		if l.link != nil {
			at.link = l.link(client)
		}
		l.byServer[client] = at
	}
	return at, made, nil
}

// keep retires the lanes to other servers than these: nodes leave a Cluster.
func (l *lanes) keep(servers []redis.UniversalClient) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for client, at := range l.byServer {
		if !slices.Contains(servers, client) {
			delete(l.byServer, client)
			at.retire()
		}
	}
}

// close ends the senders and the links. What is under way is not tried again.
func (l *lanes) close() error {
	l.mu.Lock()
	l.cancel()
	l.mu.Unlock()
	l.running.Wait()
	l.pulse.close()
	var err error
	for _, at := range l.byServer {
		if at.link != nil {
			err = errors.Join(err, at.link.close())
		}
	}
	return err
}

// lane sends what is asked of one server in pipelines: while some are under way,
// the next one gathers. Its goroutines stay until the store is closed, for to
// start one takes a noticeable part of a request's time.
type lane struct {
	*lanes
	client redis.UniversalClient
	link   *link // or nil

	mu      sync.Mutex
	linked  bool // somebody uses the link
	retired bool // it ends when there is nothing to send
	queue   []*call
	senders int
	idle    int           // of the senders
	wake    chan struct{} // has a value for each that is no longer idle
	taken   time.Time     // when a sender last took what is queued
}

// alone has a script run by the link, if there is one and nothing else is asked of
// the server, and reports whether it did.
func (l *lane) alone(ctx context.Context, c *call) bool {
	if !l.takeLink() {
		return false
	}
	l.pulse.need() // it looks at who uses the link
	l.link.use(ctx, func(ctx context.Context) { l.run(ctx, l.link.client, []*call{c}) })
	l.mu.Lock()
	l.linked = false
	retired := l.retired
	l.mu.Unlock()
	if retired {
		_ = l.link.close() // nobody is left who could do anything about it
	}
	if redirected(c.err) {
		return false
	}
	if c.err != nil && ctx.Err() != nil {
		c.err = ctx.Err()
	}
	return true
}

// takeLink takes the link for a caller who is alone.
func (l *lane) takeLink() bool {
	if l.link == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.retired || l.linked || len(l.queue) > 0 || l.senders > l.idle {
		return false
	}
	l.linked = true
	return true
}

// retire ends the senders and the link when they have done what they are at. Who has
// the lane already may still add to it.
func (l *lane) retire() {
	l.mu.Lock()
	l.retired = true
	for ; l.idle > 0; l.idle-- {
		l.wake <- struct{}{}
	}
	unused := l.link != nil && !l.linked
	l.mu.Unlock()
	if unused {
		_ = l.link.close() // as in alone
	}
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
	for {
		if l.busy() {
			runtime.Gosched() // whoever is about to ask, of those that the last replies let go on, joins in
		}
		batch := l.take()
		if batch == nil {
			return
		}
		if len(batch) > 0 {
			l.exec(l.ctx, l.client, batch)
			continue
		}
		select {
		case <-l.wake:
		case <-l.ctx.Done():
		}
	}
}

// busy: others send, too.
func (l *lane) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.senders > l.idle+1
}

// take returns what is to be sent next: nothing, if the sender has become idle,
// and nil if it is no longer needed. What its caller no longer waits for is left out:
// it would be late, by as much as others had to wait for.
func (l *lane) take() []*call {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) > 0 {
		l.taken = time.Now()
		n := min(len(l.queue), longest)
		batch := l.queue[:n:n]
		l.queue = l.queue[n:]
		batch = slices.DeleteFunc(batch, func(c *call) bool { return c.waiter.gone.Load() })
		if len(batch) > 0 {
			return batch
		}
	}
	if l.senders > senders || l.retired || l.ctx.Err() != nil {
		l.senders--
		return nil
	}
	l.idle++
	return []*call{}
}

// ask has scripts run and waits for their replies. Its error, or that of a call,
// leaves open whether a script ran.
func (s *Store) ask(ctx context.Context, calls ...*call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w, err := s.hand(ctx, calls)
	if err != nil || w == nil {
		return s.wrap(err)
	}
	return s.lanes.pulse.await(ctx, w)
}

// hand gives each call to the lane of the server that has its key, and returns who
// is to wait for them. Where a call is the only one, it may be done by then.
func (s *Store) hand(ctx context.Context, calls []*call) (*waiter, error) {
	w := newWaiter(len(calls))
	for _, c := range calls {
		c.waiter = w
	}
	if len(calls) == 1 {
		lane, err := s.lane(ctx, calls[0].key)
		if err != nil || lane.alone(ctx, calls[0]) {
			return nil, err
		}
		lane.add(calls)
		return w, nil
	}
	byLane := make(map[*lane][]*call)
	for _, c := range calls {
		lane, err := s.lane(ctx, c.key)
		if err != nil {
			return nil, err
		}
		byLane[lane] = append(byLane[lane], c)
	}
	for lane, some := range byLane {
		lane.add(some)
	}
	return w, nil
}

// lane is the one to the server that has a key.
func (s *Store) lane(ctx context.Context, key string) (*lane, error) {
	client, err := s.node(ctx, key)
	if err != nil {
		return nil, err
	}
	at, made, err := s.lanes.to(client)
	if made && s.cluster != nil {
		if servers, err := s.servers(ctx); err == nil {
			s.lanes.keep(append(servers, client))
		}
	}
	return at, err
}
