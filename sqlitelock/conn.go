package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"modernc.org/sqlite"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
)

// conn is one connection with its prepared statements. Callers use it one at a time, in
// the order of its line. It does not use database/sql, whose pool and conversions cost up
// to a fifth of a statement here (measured) and whose pool has no order.
//
// Statements do not take the caller's context: the SQLite driver would start a goroutine
// for each, and the outcome of an interrupted change would be unknown. A statement is
// short; callers wait only between statements.
type conn struct {
	line  base.Line
	file  *file
	dsn   string
	at    func(point) // called before a commit; may be nil
	raw   driver.Conn // nil: not open yet
	stmts map[string]driver.Stmt
	args  []driver.NamedValue // reused
}

// open opens the connection when it is first needed. It stays open until the store is
// closed, even if statements fail: while a connection is open, SQLite does not delete the
// log, so if the log is another file, somebody else deleted it.
func (c *conn) open() error {
	if c.raw != nil {
		return nil
	}
	if err := c.file.checkReplaced(); err != nil {
		return err
	}
	raw, err := new(sqlite.Driver).Open(c.dsn)
	if err != nil {
		return err
	}
	c.raw, c.stmts = raw, make(map[string]driver.Stmt)
	if c.at != nil {
		raw.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
			c.at(pointCommit)
			return 0
		})
	}
	return nil
}

// close closes the connection, unless the name now belongs to another file: SQLite would
// delete the log of that file.
func (c *conn) close() error {
	if c.raw == nil || c.file.isReplaced() {
		return nil
	}
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

func (c *conn) prepared(text string) (driver.Stmt, error) {
	if s, ok := c.stmts[text]; ok {
		return s, nil
	}
	s, err := c.raw.Prepare(text)
	if err == nil {
		c.stmts[text] = s
	}
	return s, err
}

func (c *conn) bind(values []driver.Value) []driver.NamedValue {
	c.args = c.args[:0]
	for i, v := range values {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return c.args
}

// exec returns the number of changed rows.
func (c *conn) exec(text string, values ...driver.Value) (int64, error) {
	s, err := c.prepared(text)
	if err != nil {
		return 0, err
	}
	r, err := s.(driver.StmtExecContext).ExecContext(context.Background(), c.bind(values))
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// query calls each for every row. A row is valid only during the call.
func (c *conn) query(text string, each func(row []driver.Value) error, values ...driver.Value) (err error) {
	s, err := c.prepared(text)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), c.bind(values))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	row := make([]driver.Value, len(rows.Columns()))
	for {
		switch err := rows.Next(row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := each(row); err != nil {
			return err
		}
	}
}

var errNoIntegers = errors.New("no row of integers")

// integers assigns the columns of the only row that a statement returns.
func (c *conn) integers(text string, values []driver.Value, to ...*int64) error {
	assigned := 0
	err := c.query(text, func(row []driver.Value) error {
		for i, p := range to {
			n, ok := row[i].(int64)
			if !ok {
				return errNoIntegers
			}
			*p = n
			assigned++
		}
		return nil
	}, values...)
	if err == nil && assigned != len(to) {
		err = errNoIntegers
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return err
}

// rollback ends the transaction if there is one.
func (c *conn) rollback() {
	if c.raw != nil {
		_, _ = c.exec(rollbackSQL) // fails if there is no transaction
	}
}

// The times until the next try to get the write lock: a change takes about 20 µs, a
// checkpoint some ms. The first tries have no pause, because the shortest sleep takes
// longer than a change: without it eight processes make a fifth more changes.
const (
	atOnce  = 4
	minWait = 50 * time.Microsecond
	maxWait = 2 * time.Millisecond
	// maxUrgentWait is short, so that renewals overtake changes that have waited longer.
	maxUrgentWait = 200 * time.Microsecond
	// placeTimeout is how long a refusal waits for the lock to give its waiter a place in
	// the queue. Beside one process that changes the file without a pause, half of the
	// refusals wait for 4 ms or more, and one in a hundred for 80 ms. maxPlaceWait is the
	// longest pause between two tries.
	placeTimeout = 100 * time.Millisecond
	maxPlaceWait = 500 * time.Microsecond
	// longChange is a change so long that other processes sleep while they wait for the
	// lock. This process would take the lock again before they wake up, so its next
	// change waits for as long as they sleep.
	longChange = time.Millisecond
)

var errClosed = errors.New("the store is closed")

// enter waits for the caller's turn on a connection until ctx ends or the store is
// closed. If it returns nil, the caller must leave the connection's line.
func (s *store) enter(ctx context.Context, c *conn, urgent bool) error {
	if err := c.line.Enter(ctx, urgent); err != nil {
		return err
	}
	if s.ctx.Err() != nil {
		c.line.Leave()
		return errClosed
	}
	return nil
}

// read runs f on the connection that reads, and retries while another process is in the
// way: in WAL mode, a process that recovers or deletes the log. It takes no lock that a
// writer waits for.
func (s *store) read(ctx context.Context, f func(*conn) error) error {
	if err := s.enter(ctx, s.reader, false); err != nil {
		return s.wrap(err)
	}
	defer s.reader.line.Leave()
	return s.try(ctx, s.reader, false, func(c *conn) error {
		err := f(c)
		if is := s.file.checkReplaced(); is != nil {
			return is // SQLite's error says less
		}
		return err
	}, atOnce, nil)
}

// need says why a change is needed.
type need int

const (
	forAnswer  need = iota
	forPlace        // only for a waiter's place in the queue: the result is a refusal
	forNothing      // no change is needed
)

// errNoPlace is the error of a change for a place that did not get the write lock.
var errNoPlace = errors.New("the write lock was taken: the waiter has no place in the queue")

// write runs f as one transaction, and retries while another connection has the write
// lock: another process, or the connection that moves this store's log into the file. If
// that lasts and without is not nil, write calls without, once. It returns why f is
// needed.
func (s *store) write(ctx context.Context, urgent bool, f func(*conn) error, without func(*conn) need) error {
	err := s.inLine(ctx, urgent, atOnce, f, without)
	if !errors.Is(err, errNoPlace) {
		return err
	}
	// Here, outside the line, it delays nobody.
	ctx, cancel := context.WithTimeout(ctx, placeTimeout)
	defer cancel()
	for wait := minWait; errors.Is(err, errNoPlace); wait = min(2*wait, maxPlaceWait) {
		if err := s.pause(ctx, wait/2+rand.N(wait)); err != nil {
			return s.wrap(err)
		}
		err = s.inLine(ctx, urgent, 1, f, func(*conn) need { return forPlace })
	}
	return err
}

// inLine is like write, in the caller's turn on the connection that writes. It calls
// without after the given number of tries. If f is then needed only for a place, it
// returns errNoPlace.
func (s *store) inLine(ctx context.Context, urgent bool, tries int, f func(*conn) error, without func(*conn) need) error {
	if err := s.enter(ctx, s.writer, urgent); err != nil {
		return s.wrap(err)
	}
	behind, err := s.change(ctx, urgent, tries, f, without)
	s.writer.line.Leave()
	if behind != nil && !urgent {
		select {
		case <-behind:
		case <-ctx.Done(): // the change is made all the same
		}
	}
	return err
}

// change is like inLine, for a caller in the writer's line. behind is the channel from
// boundLog.
func (s *store) change(ctx context.Context, urgent bool, tries int, f func(*conn) error, without func(*conn) need) (behind <-chan struct{}, err error) {
	if wait := time.Until(s.next); wait > 0 && !urgent {
		if err := s.pause(ctx, wait); err != nil {
			return nil, s.wrap(err)
		}
	}
	var begun time.Time
	err = s.try(ctx, s.writer, urgent, func(c *conn) error {
		begun = time.Now()
		return s.transact(c, f)
	}, tries, without)
	if took := time.Since(begun); took > longChange {
		s.next = time.Now().Add(min(took/2, maxWait))
	}
	if err == nil {
		behind = s.boundLog()
	}
	return behind, err
}

// try calls f until the file is not busy, the time-out passes or ctx ends. SQLite's own
// busy handler would sleep beyond the end of ctx. An urgent change goes on until ctx
// ends, and its pauses are short, so that it gets the lock before changes with longer
// pauses. See inLine for tries and without.
func (s *store) try(ctx context.Context, c *conn, urgent bool, f func(*conn) error, tries int, without func(*conn) need) error {
	start, wait := time.Now(), minWait
	for try := 1; ; try++ {
		err := c.open() // this reads the file, which can be busy
		if err == nil {
			err = f(c)
		}
		switch {
		case err == nil || errors.Is(err, hf.ErrDamaged):
			return err
		case !busy(err):
			c.rollback()
			return s.wrap(err)
		case !urgent && time.Since(start) > s.busyTimeout:
			return fmt.Errorf("SQLite file %s: other processes kept it busy for %v: %w", s.file.path, s.busyTimeout, err)
		case try < tries:
			continue
		case without != nil && c.raw != nil:
			switch without(c) {
			case forNothing:
				return nil
			case forPlace:
				return errNoPlace
			}
			without = nil
		}
		if err := s.pause(ctx, wait/2+rand.N(wait)); err != nil {
			return s.wrap(err)
		}
		if wait = min(2*wait, maxWait); urgent {
			wait = min(wait, maxUrgentWait)
		}
	}
}

// pause returns nil after d, or an error if ctx ends or the store is closed first.
func (s *store) pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ctx.Done():
		return errClosed
	}
}

// transact runs f between BEGIN IMMEDIATE and COMMIT. Only BEGIN IMMEDIATE can fail
// because the lock is taken. After an error the caller rolls back.
func (s *store) transact(c *conn, f func(*conn) error) error {
	s.reach(pointBegin)
	if _, err := c.exec(beginSQL); err != nil {
		return err
	}
	s.reach(pointBegun)
	if err := s.file.checkReplaced(); err != nil {
		return err
	}
	if err := f(c); err != nil {
		return err
	}
	s.reach(pointWritten)
	if _, err := c.exec(commitSQL); err != nil {
		return err
	}
	s.reach(pointDone)
	return nil
}
