package sqlitelock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
)

// maxReaders bounds the connections that only read. More than the processors
// can use does not help.
const maxReaders = 4

// store implements base.Backend and driver.Watcher on one file.
//
// One connection writes: SQLite lets one writer at a time into a file anyhow,
// and a line of goroutines, in which renewals go first, is fairer and quicker than
// many connections that ask again and again.
type store struct {
	file  *file
	opts  Options
	sys   system
	clock clock

	line    base.Line // of those who write
	after   time.Time // when the next of them may begin, unless it is urgent; who is in the line has it
	writer  *pool
	readers *pool
	keeper  *pool // of the log
	tried   int64 // size of the log at the keeper's last try; who has the keeper has it
	watcher *watcher

	closing  sync.Once
	closeErr error
}

var (
	_ base.Backend   = (*store)(nil)
	_ driver.Watcher = (*store)(nil)
)

func newStore(path string, opts Options, sys system) *store {
	s := &store{file: &file{path: path}, opts: opts, sys: sys, clock: clock{source: sys.clockSource}}
	name := dsn(path, opts.FullSync)
	dialed := func() (*conn, error) { return dial(name, s.file) }
	s.writer = newPool(1, func() (*conn, error) {
		c, err := dialed()
		if err == nil {
			s.hookCommit(c)
		}
		return c, err
	})
	s.readers = newPool(maxReaders, dialed)
	s.keeper = newPool(1, func() (*conn, error) {
		c, err := dialed()
		if err != nil {
			return nil, err
		}
		if err := c.script(keeperSQL); err != nil {
			return nil, errors.Join(err, c.close())
		}
		return c, nil
	})
	s.watcher = newWatcher(s, dialed)
	return s
}

// Traits implements base.Backend.
func (s *store) Traits() driver.Traits { return Traits() }

// Close implements base.Backend. It waits for the statements that are under way,
// not for other processes.
func (s *store) Close() error {
	s.closing.Do(func() {
		err := errors.Join(s.watcher.close(), s.readers.close(), s.keeper.close())
		s.reach(pointCheckpoint)
		s.closeErr = s.wrap(errors.Join(err, s.writer.close()))
	})
	return s.closeErr
}

// read runs f on a connection, again as long as another process is in the way:
// in WAL mode that is one that recovers or deletes the log. It takes no lock that
// a writer waits for.
func (s *store) read(ctx context.Context, f func(*conn) error) error {
	return s.run(ctx, s.readers, false, func(c *conn) error {
		err := f(c)
		if is := s.file.check(); is != nil {
			return is // which says more than what SQLite makes of it
		}
		return err
	}, nil)
}

// write runs f on the writing connection, again as long as another process has
// the write lock. f is one transaction, of which only BEGIN IMMEDIATE can find the
// lock taken. without, unless it is nil, is asked now and then whether f is not
// needed.
//
// The caller is in the line, but for prepare.
func (s *store) write(ctx context.Context, urgent bool, f func(*conn) error, without func(*conn) bool) error {
	if wait := time.Until(s.after); wait > 0 && !urgent {
		if err := pause(ctx, s.writer.closed, wait); err != nil {
			return s.wrap(err)
		}
	}
	var begun time.Time
	err := s.run(ctx, s.writer, urgent, func(c *conn) error {
		begun = time.Now()
		return f(c)
	}, without)
	if err == nil {
		s.boundLog()
	}
	if took := time.Since(begun); took > longChange {
		s.after = time.Now().Add(min(took/2, maxWait))
	}
	return err
}

// longChange is a change that others do not come between who sleep while they wait
// for its lock: it is taken again before they wake up. So what writes next after one
// waits as long as they sleep.
const longChange = time.Millisecond

// run tries f until it does not find the file busy, the time-out passes or ctx
// ends. SQLite's own busy handler would sleep through the end of ctx. What is
// urgent goes on until ctx ends, and is never long away from the lock, so that it
// gets it before those who pause for longer. Where the disk is full it is tried once
// more in the space that the log already has.
func (s *store) run(ctx context.Context, p *pool, urgent bool, f func(*conn) error, without func(*conn) bool) error {
	c, err := p.get(ctx)
	if err != nil {
		return s.wrap(err)
	}
	start := time.Now()
	wait, emptied := minWait, false
	for try := 1; ; try++ {
		var err error
		if c == nil {
			if err = s.file.check(); err == nil {
				c, err = p.open() // reads the file, so it can find it busy
			}
		}
		if err == nil {
			err = f(c)
		}
		if err == nil || errors.Is(err, driver.ErrDamaged) {
			p.put(c)
			return err
		}
		if urgent && full(err) && !emptied {
			emptied = true
			undo(c)
			s.emptyLog(ctx)
			continue
		}
		if !busy(err) {
			p.failed(c)
			return s.wrap(err)
		}
		if !urgent && time.Since(start) > s.opts.BusyTimeout {
			p.put(c)
			return fmt.Errorf("SQLite file %s: other processes kept it busy for %v: %w", s.file.path, s.opts.BusyTimeout, err)
		}
		if try < atOnce {
			continue
		}
		if try == atOnce && without != nil && c != nil && without(c) {
			p.put(c)
			return nil
		}
		if err := pause(ctx, p.closed, wait/2+rand.N(wait)); err != nil {
			p.put(c)
			return s.wrap(err)
		}
		if wait = min(2*wait, maxWait); urgent {
			wait = min(wait, maxUrgentWait)
		}
	}
}

// How long to wait before asking for the write lock again: a change takes some
// 20 µs, a checkpoint some ms. The first tries follow at once, for the shortest
// sleep takes longer than a change: eight processes get a fifth more done so.
const (
	atOnce  = 4
	minWait = 50 * time.Microsecond
	maxWait = 2 * time.Millisecond
	// maxUrgentWait lets renewals come before those who have waited for long.
	maxUrgentWait = 200 * time.Microsecond
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
