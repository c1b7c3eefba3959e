package httplock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/internal/foreign"
)

// How long a reused connection has until its answer begins: a third of the time left, at
// most mostPatience. A request with very little time is not worth a second try.
const (
	mostPatience  = 5 * time.Second
	leastPatience = 100 * time.Millisecond
	never         = time.Duration(math.MaxInt64)
)

func patience(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return mostPatience
	}
	third := time.Until(deadline) / 3
	if third < leastPatience {
		return 0
	}
	return min(third, mostPatience)
}

// slowFor is how long a server counts as slow.
const slowFor = time.Minute

// lane sends requests on connections of its own.
type lane struct {
	*http.Transport
	slow atomic.Pointer[time.Time] // until when the server counts as slow; nil: it does not
}

// recordDuration records the duration of a request with an answer, or of one that got
// none on a new connection.
func (l *lane) recordDuration(d, limit time.Duration, err error) {
	switch {
	case limit == 0, err != nil && d < limit:
	case d < limit:
		l.slow.Store(nil)
	default:
		until := time.Now().Add(slowFor)
		l.slow.Store(&until)
	}
}

// send sends the request that build returns. If a reused connection breaks, or brings no
// answer in time, send repeats the request on another one: the network may have dropped
// the idle connection silently, as firewalls do, or the server has just closed it. A new
// connection has all the time of ctx. net/http itself repeats a request with a body only
// if nothing of it was written.
//
// If the new connection is no faster, the old one was not the cause: the server is slow.
// Then reused connections have twice as long for a minute, or until an answer arrives in
// time: sending everything twice would make the server slower, and holds would be lost
// because of it.
//
// With once, send does not repeat the request. The caller may, and gets a new connection.
func (l *lane) send(ctx context.Context, limit time.Duration, once bool, build func(context.Context) (*http.Request, error)) (*http.Response, error) {
	began, reuse := time.Now(), limit
	if until := l.slow.Load(); until != nil && began.Before(*until) {
		reuse = 2 * limit
	}
	res, reused, err := l.try(ctx, reuse, build)
	if err == nil || !reused {
		l.recordDuration(time.Since(began), limit, err)
		return res, err
	}
	l.CloseIdleConnections() // they are probably dead for the same reason
	if once || ctx.Err() != nil {
		return nil, errors.New(err.Error()) // not wrapped: even after a TLS error, the request may have arrived
	}
	began = time.Now()
	res, _, err = l.try(ctx, 0, build)
	l.recordDuration(time.Since(began), limit, err)
	if err != nil {
		// Not wrapped: whatever the error, the first request may have arrived.
		return nil, fmt.Errorf("sent twice: %v", err)
	}
	return res, nil
}

// try sends the request once. reused means that the connection was used before. On such a
// connection the answer must begin within limit, unless that is 0.
func (l *lane) try(ctx context.Context, limit time.Duration, build func(context.Context) (*http.Request, error)) (_ *http.Response, reused bool, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	var old atomic.Bool
	timer := time.AfterFunc(never, cancel)
	req, err := build(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			if old.Store(i.Reused); i.Reused && limit > 0 {
				timer.Reset(limit)
			} else {
				timer.Reset(never) // net/http repeats the request by itself
			}
		},
	}))
	if err != nil {
		timer.Stop()
		cancel()
		return nil, false, err
	}
	res, err := l.RoundTrip(req)
	err = foreign.Error(ctx, err) // net/http returns the cause of ctx
	switch late := !timer.Stop(); {
	case err == nil && !late:
		res.Body = &body{res.Body, cancel}
		return res, old.Load(), nil
	case err == nil:
		res.Body.Close()
		fallthrough
	case late:
		err = fmt.Errorf("no answer within %v", limit.Round(time.Millisecond))
	}
	cancel()
	return nil, old.Load(), err
}

// body is the body of an answer. Closing it ends the context of the request.
type body struct {
	io.ReadCloser
	end context.CancelFunc
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
