package httplock

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/wake"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// watchPatience is how long a reused connection may take until a watch begins. The
	// Client waits 2 s for it.
	watchPatience = time.Second
	maxEventLine  = 4 << 10
)

var (
	errSilent = fmt.Errorf("nothing came for %v", wire.WatchSilence)
	errCut    = errors.New("the stream was cut off")
)

// Watch implements driver.Watcher. Each watch has a connection of its own.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	w := &wake.Stream{Name: "watch", Log: s.log}
	w.Open = func(ctx context.Context, _ bool) (func() error, error) { return s.openWatch(ctx, w, resource) }
	if s.open.Err() != nil {
		w.Close()
	}
	open, end := context.WithCancel(s.open)
	context.AfterFunc(open, w.Close)
	stop := context.AfterFunc(ctx, end)
	signals, err := w.Watch(ctx, resource)
	if err != nil {
		stop()
		end()
	}
	return signals, err
}

// openWatch implements wake.Stream.Open for a watch of one resource.
func (s *Store) openWatch(stream context.Context, w *wake.Stream, resource string) (follow func() error, err error) {
	ctx, cancel := context.WithCancelCause(stream)
	silence := time.AfterFunc(wire.WatchSilence, func() { cancel(errSilent) })
	body := io.ReadCloser(http.NoBody)
	// end closes the connection, and returns the error, or its cause.
	end := func(err error) error {
		silence.Stop()
		_ = body.Close()
		if errors.Is(context.Cause(ctx), errSilent) {
			err = errSilent
		}
		cancel(nil)
		return err
	}
	m := message{path: wire.WatchPath, query: url.Values{"resource": {resource}}, accept: wire.Events}
	// How soon a watch begins says nothing about the duration of other requests.
	res, err := s.send(ctx, &lane{Transport: s.calls.Transport}, m, watchPatience) //nolint:bodyclose // end closes it
	if err != nil {
		return nil, end(err)
	}
	body = res.Body
	if err := s.understand(res, m, nil); err != nil {
		return nil, end(err)
	}
	lines := newLines(body, maxEventLine)
	next := func() (string, error) { return nextEvent(lines, func() { silence.Reset(wire.WatchSilence) }) }
	switch event, err := next(); {
	case err != nil:
		return nil, end(fmt.Errorf("%s: watch: %w", s.target.name, err))
	case event == "end":
		return nil, end(fmt.Errorf("%w: the store has ended its signals", driver.ErrUnsupported))
	case event != "ready":
		return nil, end(s.unexpected("a watch begins with the event %.100q", event))
	}
	return func() error {
		for {
			switch event, err := next(); {
			case err != nil:
				return end(err)
			case event == "end":
				w.Hub.Close() // waiters poll from now on
				_ = end(nil)
				<-stream.Done()
				return stream.Err()
			case event == "signal":
				w.Signal(resource)
			}
		}
	}, nil
}

// nextEvent returns the name of the next complete event of a stream (text/event-stream of
// the HTML standard). Only the names of events matter here. It calls alive for each line,
// comments included.
func nextEvent(lines *bufio.Scanner, alive func()) (name string, err error) {
	for complete := false; lines.Scan(); {
		alive()
		field, value, _ := strings.Cut(lines.Text(), ":")
		switch {
		case lines.Text() == "" && complete:
			return name, nil
		case field == "event":
			name, complete = strings.TrimPrefix(value, " "), true
		}
	}
	return "", cmp.Or(lines.Err(), errCut)
}
