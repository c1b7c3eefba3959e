package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	// markFor is how long a row stays marked as watched, and thus how long releases
	// are notified after the last waiter has gone. The store relies on a mark for half
	// that time. It renews the marks of what is still watched after each markEvery.
	markFor   = 2 * time.Minute
	markEvery = 30 * time.Second
	// openTimeout bounds an opening, and probeTimeout how long a notification may
	// take to arrive.
	openTimeout  = 10 * time.Second
	probeTimeout = time.Second
)

// errDeaf: LISTEN works, and no notification comes, because a proxy shares sessions
// among its clients. This does not change while the proxy is there.
var errDeaf = fmt.Errorf("notifications do not come through: %w", driver.ErrUnsupported)

// Watch implements driver.Watcher. It returns when the connection listens and the
// row is marked: from then on releases (sql/4_change.sql) and sweeps that drop holds
// (sql/7_sweep.sql) call pg_notify for the row.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if s.polls.Load() {
		return nil, driver.ErrUnsupported
	}
	signals, err := s.stream.Watch(ctx, resource)
	if err != nil {
		return nil, err
	}
	marked := s.marked.Load()
	if until, ok := marked.Load(resource); ok && time.Now().Before(until.(time.Time)) {
		return signals, nil
	}
	until := time.Now().Add(markFor / 2)
	if _, err := ask[mark](ctx, s, s.fromEither, s.do.watch, []string{resource}, markFor.Microseconds(), true); err != nil {
		return nil, err
	}
	// This goes into the map from before the statement. A reconnect makes a new map,
	// because the server may not have the mark.
	marked.Store(resource, until)
	return signals, nil
}

// mark is a row of function watch.
type mark struct{ Resource string }

func (m *mark) read(c *columns) { m.Resource = c.text() }

// renewMarks marks what is watched, over the listener's own connection. Rows that
// other transactions have locked get no mark now. It marks them in chunks: the rows of
// one stay locked until its statement commits, and renewals wait for that.
func (s *Store) renewMarks(ctx context.Context, on conn) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	marked, until := new(sync.Map), time.Now().Add(markFor/2)
	s.marked.Store(marked)
	for some := range slices.Chunk(s.stream.Resources(), chunk) {
		var marks rows[mark, *mark]
		if err := on.query(ctx, s.do.watch.sql, false, []any{some, markFor.Microseconds(), false}, &marks); err != nil {
			return err
		}
		for _, m := range marks {
			marked.Store(m.Resource, until)
		}
	}
	return nil
}

// openStream returns when the connection receives notifications. With again, it
// repeats the marks of all that is watched: the server may be another one by now, or
// have lost what was not yet on its disk.
func (s *Store) openStream(ctx context.Context, again bool) (follow func() error, err error) {
	opening, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	on, err := s.fromOwn(opening)
	if err != nil {
		return nil, s.wrap(err)
	}
	on.hijack() // so that the store's own pool keeps its size
	err = s.listen(opening, on)
	if err == nil && again {
		err = s.renewMarks(opening, on)
	}
	if err != nil {
		hangUp(on)
		if errors.Is(err, errDeaf) {
			s.polls.Store(true)
			s.stream.Logger().Info("holdfast: waiters poll, because notifications do not come through")
		}
		return nil, s.wrap(err)
	}
	if !again {
		s.stream.Logger().Info("holdfast: waiters are woken by notifications")
	}
	return func() error {
		defer hangUp(on)
		return s.follow(ctx, on)
	}, nil
}

// listen makes the connection listen, and finds out whether it receives what another
// connection sends. Through a proxy that shares sessions, LISTEN seems to work.
func (s *Store) listen(ctx context.Context, on conn) error {
	probe := "holdfast_probe_" + strings.ToLower(rand.Text())
	for _, name := range []string{channel(s.schema), probe} {
		if err := run(ctx, on, "LISTEN "+quoted(name)); err != nil {
			return err
		}
	}
	if _, err := ask[mark](ctx, s, s.fromEither, s.do.notify, probe); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	for pinged := false; ; {
		n, err := nextNotification(soon, on.raw())
		switch {
		case err == nil && n.Channel == probe:
			return nil
		case err == nil:
		case !pgconn.Timeout(err) || ctx.Err() != nil:
			return err
		case pinged:
			return errDeaf
		default:
			// It may be cut off rather than deaf. Notifications arrive before the answer.
			if err := ping(ctx, on.raw()); err != nil {
				return err
			}
			pinged = true
		}
	}
}

// follow signals until the connection fails. It also renews marks, and so notices a
// connection that no longer works.
func (s *Store) follow(ctx context.Context, on conn) error {
	for {
		quiet, cancel := context.WithTimeout(ctx, markEvery)
		err := s.signalUntil(quiet, on)
		cancel()
		if ctx.Err() != nil || !pgconn.Timeout(err) {
			return err
		}
		err = s.renewMarks(ctx, on)
		var answered *pgconn.PgError
		if err != nil && !errors.As(err, &answered) {
			return err
		}
		if err != nil {
			s.stream.Logger().Warn("holdfast: waiters may have to poll", slog.Any("error", err))
		}
	}
}

// signalUntil signals notifications until ctx ends or the connection fails.
func (s *Store) signalUntil(ctx context.Context, on conn) error {
	for {
		n, err := nextNotification(ctx, on.raw())
		if err != nil {
			return err
		}
		s.stream.Signal(n.Payload)
	}
}
