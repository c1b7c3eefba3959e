package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
)

// maxReaders bounds the connections that only read. More than the processors
// can use does not help.
const maxReaders = 4

// store implements cas.Backend, cas.Batcher and driver.Watcher on one file.
//
// One connection writes: SQLite lets one writer at a time into a file anyhow,
// and a queue of goroutines is fairer and quicker than many connections that
// ask again and again.
type store struct {
	file  string
	opts  Options
	sys   system
	clock clock

	writer  *pool
	readers *pool
	watcher *watcher

	closing  sync.Once
	closeErr error
}

var (
	_ cas.Backend    = (*store)(nil)
	_ cas.Batcher    = (*store)(nil)
	_ driver.Watcher = (*store)(nil)
)

func newStore(file string, opts Options, sys system) *store {
	s := &store{file: file, opts: opts, sys: sys, clock: clock{source: sys.clockSource}}
	name := dsn(file, opts.FullSync)
	dialed := func() (*conn, error) { return dial(name) }
	s.writer = newPool(1, func() (*conn, error) {
		c, err := dial(name)
		if err == nil {
			s.hookCommit(c)
		}
		return c, err
	})
	s.readers = newPool(maxReaders, dialed)
	s.watcher = newWatcher(s, dialed)
	return s
}

// Traits implements cas.Backend.
func (s *store) Traits() driver.Traits { return Traits() }

// Close implements cas.Backend. It waits for the statements that are under way,
// not for other processes.
func (s *store) Close() error {
	s.closing.Do(func() {
		err := errors.Join(s.watcher.close(), s.readers.close())
		s.reach(pointCheckpoint)
		s.closeErr = s.wrap(errors.Join(err, s.writer.close()))
	})
	return s.closeErr
}

// read runs f on a connection, again as long as another process is in the way:
// in WAL mode that is one that recovers or deletes the log.
//
// An idle writer reads, too: it knows its own changes, while a reader must drop
// its page cache after each.
func (s *store) read(ctx context.Context, f func(*conn) error) error {
	p, c := s.writer, s.writer.idleNow()
	if c == nil {
		var err error
		if p, c, err = s.reader(ctx); err != nil {
			return err
		}
	}
	return s.run(ctx, p, c, f)
}

// reader waits for a connection that does not keep a writer waiting.
func (s *store) reader(ctx context.Context) (*pool, *conn, error) {
	c, err := s.readers.get(ctx)
	return s.readers, c, s.wrap(err)
}

// write runs f on the writing connection, again as long as another process has
// the write lock. f is one change: one statement, or BEGIN IMMEDIATE to COMMIT,
// of which only the first can find the lock taken.
func (s *store) write(ctx context.Context, f func(*conn) error) error {
	c, err := s.writer.get(ctx)
	if err != nil {
		return s.wrap(err)
	}
	return s.run(ctx, s.writer, c, f)
}

// run tries f until it does not find the file busy, the time-out passes or ctx
// ends. SQLite's own busy handler would sleep through the end of ctx.
func (s *store) run(ctx context.Context, p *pool, c *conn, f func(*conn) error) error {
	start := time.Now()
	wait := minWait
	for try := 1; ; try++ {
		var err error
		if c == nil {
			c, err = p.open() // reads the file, so it can find it busy
		}
		if err == nil {
			err = f(c)
		}
		if err == nil || errors.Is(err, driver.ErrDamaged) {
			p.put(c)
			return err
		}
		if !busy(err) {
			p.drop(c)
			return s.wrap(err)
		}
		if time.Since(start) > s.opts.BusyTimeout {
			p.put(c)
			return fmt.Errorf("SQLite file %s: other processes kept it busy for %v: %w", s.file, s.opts.BusyTimeout, err)
		}
		if try < atOnce {
			continue
		}
		if err := pause(ctx, p.closed, wait/2+rand.N(wait)); err != nil {
			p.put(c)
			return s.wrap(err)
		}
		wait = min(2*wait, maxWait)
	}
}

// How long to wait before asking for the write lock again: a change takes some
// 20 µs, a checkpoint some ms. The first tries follow at once, for the shortest
// sleep takes longer than a change: eight processes get a fifth more done so.
const (
	atOnce  = 4
	minWait = 50 * time.Microsecond
	maxWait = 2 * time.Millisecond
)

// pause returns nil after d, or an error if ctx or the store ends before.
func pause(ctx context.Context, closed <-chan struct{}, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return errClosed
	}
}
