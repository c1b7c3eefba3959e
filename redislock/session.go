package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// silence is how long a server may say nothing until it is asked for a sign of
// life, and how long it then has.
const silence = 15 * time.Second

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
		pubsub.Close()
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
