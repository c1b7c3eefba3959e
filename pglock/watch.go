package pglock

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	mathrand "math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/wake"
)

const (
	// How long to wait before a connection that failed is opened again.
	minReopen = 50 * time.Millisecond
	maxReopen = 10 * time.Second
	// openTimeout bounds an opening, and probeTimeout how long the connection may
	// take to hear what was sent to it, which is told as soon as it is committed.
	openTimeout  = 10 * time.Second
	probeTimeout = time.Second
	// silence is how long the connection may be quiet until it is asked whether it
	// is there, and pingTimeout how long it may take to say so.
	silence = 30 * time.Second
)

// errDeaf: it connected, but is told nothing.
var errDeaf = errors.New("the connection hears no notification")

// watcher signals releases, by one connection for all who wait. It is opened when
// the first of them comes, and again when it has died: all are signalled then, for
// nobody knows what they missed.
type watcher struct {
	s     *Store
	hub   wake.Hub
	marks marks

	ctx    context.Context // of the goroutines, which end with the store
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	opening *opening // the last one; nil: there was none
	closed  bool
}

// opening is one try to open the connection.
type opening struct {
	over chan struct{} // closed when err is set
	err  error
}

func newWatcher(s *Store) *watcher {
	w := &watcher{s: s}
	w.marks.w = w
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// Watch implements driver.Watcher.
func (s *Store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	if s.polls.Load() {
		return nil, driver.ErrUnsupported
	}
	return s.watcher.watch(ctx, resource)
}

// watch subscribes before it waits for the connection and for the mark, so that
// nothing is missed.
func (w *watcher) watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	ch := w.hub.Subscribe(ctx, resource)
	o := w.start()
	if o == nil {
		return ch, nil // closed, and so is the channel
	}
	select {
	case <-o.over:
		if o.err != nil {
			return nil, o.err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err := w.marks.mark(ctx, resource); err != nil {
		return nil, err
	}
	return ch, nil
}

func (w *watcher) start() *opening {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if w.opening == nil {
		w.opening = &opening{over: make(chan struct{})}
		w.done.Go(w.run)
		w.done.Go(w.marks.keep)
	}
	return w.opening
}

// run keeps the connection open until the store is closed.
func (w *watcher) run() {
	wait := minReopen
	for first := true; ; first = false {
		conn, err := w.open(!first)
		if errors.Is(err, errDeaf) {
			// What lies between shares sessions among its clients, and will go on so.
			w.s.polls.Store(true)
			w.s.log.Info("holdfast: waiters poll, for notifications do not come through")
			w.opened(driver.ErrUnsupported)
			w.hub.Close()
			return
		}
		w.opened(err)
		if err == nil {
			wait = minReopen
			if first {
				w.s.log.Info("holdfast: waiters are woken by notifications")
			} else {
				w.s.log.Info("holdfast: notifications are back")
				w.hub.SignalAll()
			}
			err = w.follow(conn)
			hangUp(conn)
		}
		if w.ctx.Err() != nil {
			return
		}
		w.s.log.Warn("holdfast: the connection for notifications failed, waiters poll until there is another", slog.Any("error", err))
		w.mu.Lock()
		w.opening = &opening{over: make(chan struct{})}
		w.mu.Unlock()
		if pause(w.ctx, wait/2+mathrand.N(wait)) != nil {
			w.opened(w.ctx.Err())
			return
		}
		wait = min(2*wait, maxReopen)
	}
}

func (w *watcher) opened(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opening.err = err
	close(w.opening.over)
}

// open returns a connection that hears. With again, what is watched is marked anew:
// the server may be another one by now, or have lost what was not yet on its disk.
func (w *watcher) open(again bool) (_ *pgx.Conn, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, openTimeout)
	defer cancel()
	pooled, err := w.s.fromOwn(ctx)
	if err != nil {
		return nil, err
	}
	conn := pooled.Hijack() // so that the store's own pool keeps its size
	defer func() {
		if err != nil {
			hangUp(conn)
		}
	}()
	if err := w.tune(ctx, conn); err != nil {
		return nil, err
	}
	if again {
		w.marks.forget()
		err = w.marks.renew(ctx)
	}
	return conn, err
}

// tune makes the connection listen, and finds out whether it hears what another one
// says. Through a proxy that shares sessions, listening seems to work.
func (w *watcher) tune(ctx context.Context, conn *pgx.Conn) error {
	probe := "holdfast_probe_" + strings.ToLower(rand.Text())
	for _, name := range []string{channel(w.s.schema), probe} {
		if _, err := conn.Exec(ctx, "LISTEN "+quoted(name), pgx.QueryExecModeExec); err != nil {
			return err
		}
	}
	err := w.s.askBare(ctx, w.s.fromEither, "SELECT pg_notify($1, '')::text", []any{probe}, func(pgx.Rows) error { return nil })
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
func (w *watcher) follow(conn *pgx.Conn) error {
	for {
		ctx, cancel := context.WithTimeout(w.ctx, silence)
		n, err := conn.WaitForNotification(ctx)
		cancel()
		switch {
		case err == nil:
			w.hub.Signal(n.Payload)
		case w.ctx.Err() != nil || !pgconn.Timeout(err):
			return err
		default:
			if err := ping(w.ctx, conn); err != nil {
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

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.done.Wait()
	w.hub.Close()
}
