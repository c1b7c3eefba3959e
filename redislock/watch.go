package redislock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/wake"
)

const (
	// How long to wait before subscriptions that failed are made again.
	minReopen = 50 * time.Millisecond
	maxReopen = 10 * time.Second
	// silence is how long a server may say nothing until it is asked for a sign of
	// life, and how long it then has.
	silence = 15 * time.Second
)

// watcher signals releases. It has one connection, and in a Cluster one to each
// server that has something to tell, with a channel for each resource that is
// waited for. One goroutine does all the subscribing; if anything fails, all is
// subscribed anew, and all who wait are signalled, for nobody knows what they
// missed.
type watcher struct {
	store *Store
	hub   wake.Hub
	asks  chan ask
	gone  chan string // resources that somebody no longer waits for

	start  sync.Once
	ctx    context.Context // of the goroutines, which end with the store
	cancel context.CancelFunc
	done   sync.WaitGroup

	// Of the goroutine alone.
	wanted map[string]*want // by resource
}

// ask is for a subscription. It is answered once.
type ask struct {
	resource string
	answer   chan<- error
}

// want is a resource that is waited for.
type want struct {
	users     int
	confirmed bool           // the server has it
	again     bool           // it had it before
	on        *redis.PubSub  // where it is subscribed, or nil
	answers   []chan<- error // of those who wait for confirmed
}

func newWatcher(s *Store) *watcher {
	w := &watcher{store: s, asks: make(chan ask), gone: make(chan string), wanted: make(map[string]*want)}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// watch subscribes to the hub before it waits for the server, so that nothing is
// missed.
func (w *watcher) watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	w.start.Do(func() { w.done.Go(w.run) })
	ch := w.hub.Subscribe(ctx, resource)
	answer := make(chan error, 1)
	select {
	case w.asks <- ask{resource, answer}:
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.ctx.Done():
		return ch, nil // closed, and so is the channel
	}
	context.AfterFunc(ctx, func() {
		select {
		case w.gone <- resource:
		case <-w.ctx.Done():
		}
	})
	select {
	case err := <-answer:
		if err != nil {
			return nil, err
		}
		return ch, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-w.ctx.Done():
		return ch, nil
	}
}

func (w *watcher) close() {
	w.cancel()
	w.start.Do(func() {}) // a Watch from now on starts nothing
	w.done.Wait()
	w.hub.Close()
}

// run keeps what is wanted subscribed until the store is closed.
func (w *watcher) run() {
	wait := minReopen
	for {
		s := &session{watcher: w, events: make(chan event), byServer: make(map[redis.UniversalClient]*redis.PubSub)}
		s.ctx, s.cancel = context.WithCancel(w.ctx)
		err := s.follow()
		s.close()
		if w.ctx.Err() != nil {
			return
		}
		if s.confirmed {
			wait = minReopen
		}
		w.store.log.Warn("holdfast: subscription failed, waiters poll until it is made again", "error", err)
		for _, v := range w.wanted {
			v.again = v.again || v.confirmed
			v.confirmed, v.on = false, nil
			v.answer(err)
		}
		if w.store.cluster != nil {
			w.store.cluster.ReloadState(w.ctx)
		}
		if w.rest(wait/2+rand.N(wait)) != nil {
			return
		}
		wait = min(2*wait, maxReopen)
	}
}

// rest lets time pass, and takes note of who comes and goes.
func (w *watcher) rest(d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case a := <-w.asks:
			w.want(a)
		case resource := <-w.gone:
			if v := w.wanted[resource]; v.users == 1 {
				delete(w.wanted, resource)
			} else {
				v.users--
			}
		case <-timer.C:
			return nil
		case <-w.ctx.Done():
			return w.ctx.Err()
		}
	}
}

// want returns what is to be subscribed for an ask, which is answered if it is.
func (w *watcher) want(a ask) *want {
	v := w.wanted[a.resource]
	if v == nil {
		v = &want{}
		w.wanted[a.resource] = v
	}
	v.users++
	v.answers = append(v.answers, a.answer)
	if v.confirmed {
		v.answer(nil)
	}
	return v
}

func (v *want) answer(err error) {
	for _, answer := range v.answers {
		answer <- err
	}
	v.answers = nil
}

// session is what is subscribed from one failure to the next.
type session struct {
	*watcher
	ctx       context.Context
	cancel    context.CancelFunc
	events    chan event
	byServer  map[redis.UniversalClient]*redis.PubSub
	readers   sync.WaitGroup
	confirmed bool // anything was
}

// event is what a reader has to tell: a subscription that the server confirms or
// ends, or why it cannot read on.
type event struct {
	subscription *redis.Subscription
	err          error
}

func (s *session) close() {
	s.cancel()
	for _, pubsub := range s.byServer {
		pubsub.Close() //nolint:errcheck // it may have failed
	}
	s.readers.Wait()
}

// follow subscribes and signals until something fails.
func (s *session) follow() error {
	for resource, v := range s.wanted {
		if err := s.subscribe(resource, v); err != nil {
			return err
		}
	}
	for {
		select {
		case a := <-s.asks:
			if v := s.want(a); v.on == nil {
				if err := s.subscribe(a.resource, v); err != nil {
					return err
				}
			}
		case resource := <-s.gone:
			v := s.wanted[resource]
			v.users--
			if err := s.drop(resource, v); err != nil {
				return err
			}
		case e := <-s.events:
			if err := s.handle(e); err != nil {
				return err
			}
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

func (s *session) handle(e event) error {
	if e.err != nil {
		return e.err
	}
	resource := strings.TrimPrefix(e.subscription.Channel, s.store.o.Prefix)
	v := s.wanted[resource]
	switch kind := e.subscription.Kind; {
	case v == nil: // the answer to drop
	case kind == "subscribe" || kind == "ssubscribe":
		v.confirmed, s.confirmed = true, true
		v.answer(nil)
		if v.again {
			v.again = false
			s.hub.Signal(resource)
		}
		return s.drop(resource, v)
	case v.confirmed:
		return fmt.Errorf("the server ended it: the slot has moved")
	}
	return nil
}

// subscribe asks for what the server confirms later.
func (s *session) subscribe(resource string, v *want) error {
	key := s.store.key(resource)
	server, err := s.store.node(s.ctx, key)
	if err != nil {
		return err
	}
	pubsub, open := s.byServer[server]
	if !open {
		if s.store.sharded() {
			pubsub = server.SSubscribe(s.ctx)
		} else {
			pubsub = server.Subscribe(s.ctx)
		}
		s.byServer[server] = pubsub
	}
	v.on = pubsub
	if s.store.sharded() {
		err = pubsub.SSubscribe(s.ctx, key)
	} else {
		err = pubsub.Subscribe(s.ctx, key)
	}
	if err == nil && !open {
		s.readers.Go(func() { s.read(pubsub) })
	}
	return err
}

// drop ends a subscription that nobody uses any more. What is not yet confirmed
// stays until it is: a later confirmation of the same channel could not be told
// from it.
func (s *session) drop(resource string, v *want) error {
	if v.users > 0 || !v.confirmed {
		return nil
	}
	delete(s.wanted, resource)
	if s.store.sharded() {
		return v.on.SUnsubscribe(s.ctx, s.store.key(resource))
	}
	return v.on.Unsubscribe(s.ctx, s.store.key(resource))
}

// read signals what a connection tells, until it fails. One that says nothing is
// asked for a sign of life, for the other end may be gone.
func (s *session) read(pubsub *redis.PubSub) {
	asked := false
	for {
		message, err := pubsub.ReceiveTimeout(s.ctx, silence)
		var timeout net.Error
		switch {
		case err == nil:
			asked = false
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			asked = true
			if err = pubsub.Ping(s.ctx); err == nil {
				continue
			}
		}
		e := event{err: err}
		switch m := message.(type) {
		case *redis.Message:
			s.hub.Signal(strings.TrimPrefix(m.Channel, s.store.o.Prefix))
			continue
		case *redis.Subscription:
			e.subscription = m
		case *redis.Pong:
			continue
		}
		select {
		case s.events <- e:
		case <-s.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}
