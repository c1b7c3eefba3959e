package redislock

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver/wake"
)

// How long to wait before subscriptions that failed are made again.
const (
	minReopen = 50 * time.Millisecond
	maxReopen = 10 * time.Second
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
		confirmed, err := w.session()
		if w.ctx.Err() != nil {
			return
		}
		if confirmed {
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

// session subscribes all that is wanted until something fails. It reports whether
// anything was confirmed.
func (w *watcher) session() (confirmed bool, err error) {
	ctx, cancel := context.WithCancel(w.ctx)
	s := &session{
		watcher: w, ctx: ctx, cancel: cancel,
		events: make(chan event), byServer: make(map[redis.UniversalClient]*redis.PubSub),
	}
	defer s.close()
	err = s.follow()
	return s.confirmed, err
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
