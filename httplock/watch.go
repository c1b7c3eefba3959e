package httplock

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/wake"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// watchPatience is how long a reused connection may take until a watch begins. The Client
// waits 2 s for it.
const watchPatience = time.Second

// Watch implements driver.Watcher. Each watch has a connection of its own.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &wake.Stream{Name: "watch", Log: s.log}
	w.Open = func(ctx context.Context, _ bool) (func() error, error) { return s.openWatch(ctx, w, resource) }
	s.watches.Store(w, nil)
	end := func() {
		w.Close()
		s.watches.Delete(w)
	}
	if s.closed.Load() { // Close may have missed the watch
		end()
	}
	stop := context.AfterFunc(ctx, end)
	signals, err := w.Watch(ctx, resource)
	if err != nil && stop() {
		end()
	}
	return signals, err
}

// openWatch implements wake.Stream.Open for a watch of one resource.
func (s *Store) openWatch(ctx context.Context, w *wake.Stream, resource string) (follow func() error, err error) {
	f := &follower{}
	f.ctx, f.cancel = context.WithCancelCause(ctx)
	f.silence = time.AfterFunc(wire.WatchSilence, func() { f.cancel(errSilent) })
	m := message{path: wire.WatchPath, query: url.Values{"resource": {resource}}, accept: wire.Events}
	// How soon a watch begins says nothing about the duration of other requests.
	res, err := s.send(f.ctx, &lane{Transport: s.calls.Transport}, m, watchPatience) //nolint:bodyclose // f.end closes it
	if err != nil {
		return nil, f.end(err)
	}
	f.body = res.Body
	if err := s.understand(res, m, nil); err != nil {
		return nil, f.end(err)
	}
	f.events = newEvents(res.Body, func() { f.silence.Reset(wire.WatchSilence) })
	switch event, err := f.events.next(); {
	case err != nil:
		return nil, f.end(fmt.Errorf("%s: watch: %w", s.target.name, err))
	case event == endEvent:
		return nil, f.end(fmt.Errorf("%w: the store has ended its signals", driver.ErrUnsupported))
	case event != readyEvent:
		return nil, f.end(s.unexpected("a watch begins with the event %.100q", event))
	}
	return func() error {
		err := f.follow(func() { w.Signal(resource) })
		if errors.Is(err, errEnd) {
			w.Hub.Close() // waiters poll from now on
			<-ctx.Done()
		}
		return err
	}, nil
}

var (
	errSilent = fmt.Errorf("nothing came for %v", wire.WatchSilence)
	errEnd    = errors.New("the store has ended its signals")
)

// follower reads the events of a watch. Its ctx ends when the connection goes silent.
type follower struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	silence *time.Timer
	body    interface{ Close() error }
	events  *events
}

// follow signals until the stream ends, and returns the reason.
func (f *follower) follow(signal func()) error {
	for {
		event, err := f.events.next()
		if err == nil && event == endEvent {
			err = errEnd
		}
		if err != nil {
			return f.end(err)
		}
		if event == signalEvent {
			signal()
		}
	}
}

// end closes the connection, and returns the error, or its cause.
func (f *follower) end(err error) error {
	f.silence.Stop()
	if f.body != nil {
		_ = f.body.Close()
	}
	if errors.Is(context.Cause(f.ctx), errSilent) {
		err = errSilent
	}
	f.cancel(nil)
	return err
}
