package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/wake"
)

const (
	// openTimeout bounds an opening, and probeTimeout how long the connection may
	// take to hear what was sent to it, which is told as soon as it is committed.
	openTimeout  = 10 * time.Second
	probeTimeout = time.Second
	// silence is how long the connection may be quiet until it is asked whether it
	// is there, and pingTimeout how long it may take to say so.
	silence = 30 * time.Second
)

// errDeaf: it connected, but is told nothing. What lies between shares sessions
// among its clients, and will go on so.
var errDeaf = fmt.Errorf("notifications do not come through: %w", driver.ErrUnsupported)

// listener hears of releases, over a connection that is neither the pool's nor that
// of renewals.
type listener struct {
	s      *Store
	stream wake.Stream
	marks  marks
}

func newListener(s *Store) *listener {
	l := &listener{s: s}
	l.stream.Name, l.stream.Log, l.stream.Open = "the connection for notifications", s.log, l.open
	l.marks.s, l.marks.hub = s, &l.stream.Hub
	return l
}

// Watch implements driver.Watcher. A release is told once the connection listens
// and the row is marked.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if s.polls.Load() {
		return nil, driver.ErrUnsupported
	}
	signals, err := s.listener.stream.Watch(ctx, resource)
	if err == nil {
		err = s.listener.marks.mark(ctx, resource)
	}
	return signals, err
}

// open returns when the connection hears. With again, what is watched is marked
// anew: the server may be another one by now, or have lost what was not yet on its
// disk.
func (l *listener) open(ctx context.Context, again bool) (follow func() error, err error) {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	pooled, err := l.s.fromOwn(opening)
	if err != nil {
		return nil, l.s.wrap(err)
	}
	conn := pooled.Hijack() // so that the store's own pool keeps its size
	err = l.tune(opening, conn)
	if err == nil && again {
		l.marks.forget()
		err = l.marks.renew(opening)
	}
	if err != nil {
		hangUp(conn)
		if errors.Is(err, errDeaf) {
			l.s.polls.Store(true)
			l.s.log.Info("holdfast: waiters poll, for notifications do not come through")
		}
		return nil, l.s.wrap(err)
	}
	if !again {
		l.s.log.Info("holdfast: waiters are woken by notifications")
	}
	return func() error {
		defer hangUp(conn)
		ctx, cancel := context.WithCancel(ctx)
		var keeping sync.WaitGroup
		keeping.Go(func() { l.marks.keep(ctx) })
		defer keeping.Wait()
		defer cancel()
		return l.follow(ctx, conn)
	}, nil
}

// tune makes the connection listen, and finds out whether it hears what another one
// says. Through a proxy that shares sessions, listening seems to work.
func (l *listener) tune(ctx context.Context, conn *pgx.Conn) error {
	probe := "holdfast_probe_" + strings.ToLower(rand.Text())
	for _, name := range []string{channel(l.s.schema), probe} {
		if _, err := conn.Exec(ctx, "LISTEN "+quoted(name), pgx.QueryExecModeExec); err != nil {
			return err
		}
	}
	err := l.s.askBare(ctx, l.s.fromEither, "SELECT pg_notify($1, '')::text", []any{probe}, func(pgx.Rows) error { return nil })
	if err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for asked := false; ; {
		n, err := conn.WaitForNotification(soon)
		switch {
		case err == nil && n.Channel == probe:
			_, err := conn.Exec(ctx, "UNLISTEN "+quoted(probe), pgx.QueryExecModeExec)
			return err
		case err == nil:
		case !pgconn.Timeout(err) || ctx.Err() != nil:
			return err
		case asked:
			return errDeaf
		default:
			// It may be cut off rather than deaf. What it was told comes before the answer.
			if err := ping(ctx, conn); err != nil {
				return err
			}
			asked = true
		}
	}
}

func ping(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return conn.Ping(ctx)
}

// follow signals until the connection fails.
func (l *listener) follow(ctx context.Context, conn *pgx.Conn) error {
	for {
		quiet, cancel := context.WithTimeout(ctx, silence)
		n, err := conn.WaitForNotification(quiet)
		cancel()
		switch {
		case err == nil:
			l.stream.Signal(n.Payload)
		case ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		default:
			if err := ping(ctx, conn); err != nil {
				return err
			}
		}
	}
}

// hangUp closes the connection, in a moment.
func hangUp(conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTimeout)
	defer cancel()
	_ = conn.Close(ctx)
}
