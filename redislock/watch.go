package redislock

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/wake"
)

// pingAfter is the time without a message after which the watcher sends a PING, and then
// the time in which the server must answer.
const pingAfter = 15 * time.Second

// watcher signals releases. It has one connection (in a Cluster one to each server with
// watched resources) and subscribes to a channel for each watched resource. If anything
// fails, the stream is opened again, with all channels.
type watcher struct {
	store  *Store
	stream wake.Stream

	mu       sync.Mutex
	users    map[string]int             // the number of watchers, by resource
	awaiting map[string][]chan struct{} // closed when the server confirms the subscription
	session  *session                   // the session of the open stream, or nil
}

func newWatcher(s *Store) *watcher {
	w := &watcher{store: s, users: make(map[string]int), awaiting: make(map[string][]chan struct{})}
	w.stream = wake.Stream{Name: "subscription", Log: s.o.Logger, Open: w.open}
	return w
}

// watch subscribes to the hub before it waits for the server, so that it misses no signal.
func (w *watcher) watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	ch, err := w.stream.Watch(ctx, resource)
	if err != nil {
		return nil, err
	}
	confirmed := make(chan struct{})
	w.mu.Lock()
	on := w.session
	if on == nil { // the store was closed before it was opened
		w.mu.Unlock()
		return ch, nil
	}
	w.users[resource]++
	w.awaiting[resource] = append(w.awaiting[resource], confirmed)
	w.mu.Unlock()
	go on.settle(resource)
	context.AfterFunc(ctx, func() { w.leave(resource) })
	select {
	case <-confirmed:
		return ch, nil
	case <-on.ctx.Done():
		if err := context.Cause(on.ctx); !errors.Is(err, context.Canceled) {
			return nil, err
		}
		return ch, nil // the store is closed, and so is the channel
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave unsubscribes after the last watcher. If other watchers are left, settle would
// subscribe again, and the confirmation would wake them.
func (w *watcher) leave(resource string) {
	w.mu.Lock()
	on := w.session
	w.users[resource]--
	last := w.users[resource] == 0
	if last {
		delete(w.users, resource)
	}
	w.mu.Unlock()
	if last {
		on.settle(resource)
	}
}

// open implements wake.Stream.Open.
func (w *watcher) open(ctx context.Context, again bool) (follow func() error, err error) {
	if again && w.store.cluster != nil {
		w.store.cluster.ReloadState(ctx)
	}
	s := &session{watcher: w, byServer: make(map[redis.UniversalClient]*redis.PubSub), dropped: make(map[string]int)}
	s.ctx, s.fail = context.WithCancelCause(ctx)
	follow = func() error {
		<-s.ctx.Done()
		s.sending.Lock() // no reader starts from now on
		defer s.sending.Unlock()
		s.readers.Wait()
		return context.Cause(s.ctx)
	}
	pubsub, err := s.connection(w.store.o.Prefix)
	if err == nil {
		err = w.store.probe(s.ctx, pubsub)
	}
	if err != nil {
		s.fail(err)
		return nil, follow()
	}
	s.readers.Go(func() { s.read(pubsub) })
	w.mu.Lock()
	w.session = s
	clear(w.awaiting) // for an earlier session
	resources := slices.Collect(maps.Keys(w.users))
	w.mu.Unlock()
	for _, resource := range resources {
		s.settle(resource)
	}
	if s.ctx.Err() != nil {
		return nil, follow()
	}
	return follow, nil
}

// session has the subscriptions between two failures.
type session struct {
	*watcher
	ctx     context.Context // ends with the first failure
	fail    context.CancelCauseFunc
	readers sync.WaitGroup

	sending  sync.Mutex
	byServer map[redis.UniversalClient]*redis.PubSub
	dropped  map[string]int // unsubscriptions under way; guarded by watcher.mu
}

// settle subscribes to the resource if it is watched, and otherwise unsubscribes. It
// checks for watchers after it has the lock, so the last of several calls leaves the
// right state. Subscribing twice is harmless: the server confirms again.
func (s *session) settle(resource string) {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	watched := s.users[resource] > 0
	if !watched {
		s.dropped[resource]++
	}
	s.mu.Unlock()
	key := s.store.key(resource)
	pubsub, err := s.connection(key)
	if err == nil {
		err = s.store.subscribe(s.ctx, pubsub, key, watched)
	}
	if err != nil {
		s.fail(err)
	}
}

// connection returns the connection to the server that has a channel. It is closed with
// the session.
func (s *session) connection(channel string) (*redis.PubSub, error) {
	server, err := s.store.node(s.ctx, channel)
	if err != nil {
		return nil, err
	}
	pubsub, open := s.byServer[server]
	if !open {
		pubsub = server.Subscribe(s.ctx) // to nothing yet
		s.byServer[server] = pubsub
		context.AfterFunc(s.ctx, func() { pubsub.Close() })
		if len(s.byServer) > 1 { // open reads from the first
			s.readers.Go(func() { s.read(pubsub) })
		}
	}
	return pubsub, nil
}

// read signals the messages of a connection until it fails. If none comes for a while, it
// sends a PING, because the server may be gone.
func (s *session) read(pubsub *redis.PubSub) {
	for pinged := false; ; {
		message, err := pubsub.ReceiveTimeout(s.ctx, pingAfter)
		var timeout net.Error
		switch {
		case err == nil:
			pinged = false
			s.receive(message)
			continue
		case errors.As(err, &timeout) && timeout.Timeout() && !pinged:
			pinged = true
			err = pubsub.Ping(s.ctx)
		}
		if err != nil {
			s.fail(err)
			return
		}
	}
}

func (s *session) receive(message any) {
	switch m := message.(type) {
	case *redis.Message:
		s.stream.Signal(strings.TrimPrefix(m.Channel, s.store.o.Prefix))
	case *redis.Subscription:
		s.subscribed(strings.TrimPrefix(m.Channel, s.store.o.Prefix), m.Kind)
	}
}

// subscribed notes that the server confirmed or ended a subscription. An unawaited
// confirmation is about a subscription that existed before. It may have been interrupted,
// so a signal may have been missed.
func (s *session) subscribed(resource, kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind {
	case "subscribe", "ssubscribe":
		for _, confirmed := range s.awaiting[resource] {
			close(confirmed)
		}
		if len(s.awaiting[resource]) == 0 {
			s.stream.Signal(resource)
		}
		delete(s.awaiting, resource)
	default:
		if s.dropped[resource]--; s.dropped[resource] < 0 {
			s.fail(errors.New("the server ended a subscription: its slot has moved"))
		} else if s.dropped[resource] == 0 {
			delete(s.dropped, resource)
		}
	}
}

func (s *Store) subscribe(ctx context.Context, pubsub *redis.PubSub, channel string, on bool) error {
	switch sharded := s.sharded(); {
	case on && sharded:
		return pubsub.SSubscribe(ctx, channel)
	case on:
		return pubsub.Subscribe(ctx, channel)
	case sharded:
		return pubsub.SUnsubscribe(ctx, channel)
	}
	return pubsub.Unsubscribe(ctx, channel)
}

// probe returns an error if the user may not subscribe.
func (s *Store) probe(ctx context.Context, pubsub *redis.PubSub) error {
	for _, on := range []bool{true, false} {
		if err := s.subscribe(ctx, pubsub, s.o.Prefix, on); err != nil {
			return err
		}
		if _, err := pubsub.ReceiveTimeout(ctx, pingAfter); err != nil {
			return err
		}
	}
	return nil
}

// publish returns the command by which the script signals a release.
func (s *Store) publish() string {
	if s.sharded() {
		return "SPUBLISH"
	}
	return "PUBLISH"
}

// sharded reports whether channels belong to the nodes that have their keys.
func (s *Store) sharded() bool { return s.cluster != nil && !s.global.Load() }
