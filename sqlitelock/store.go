package sqlitelock

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"time"

	hf "github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

// store implements base.Backend and driver.Watcher on one file.
//
// One connection writes: SQLite allows one writer at a time, and a line of goroutines in
// which renewals go first is fairer and faster than many connections that retry. One
// connection reads, so that reads do not wait for a writer. One moves the log into the
// file while the other two work.
type store struct {
	file        *file
	busyTimeout time.Duration
	sys         system
	clock       clock

	writer, reader, checkpointer *conn

	// Guarded by the writer's line.
	next    time.Time     // when the next change may begin, unless it is urgent
	tried   int64         // the size of the log when boundLog last started an attempt
	restart chan struct{} // closed when that attempt has ended; nil: no attempt yet

	watcher watcher

	ctx        context.Context // ends with Close
	cancel     context.CancelFunc
	background sync.WaitGroup
	closing    sync.Once
	closeErr   error
}

var (
	_ base.Backend = (*store)(nil)
	_ hf.Watcher   = (*store)(nil)
)

func newStore(file *file, opts Options, sys system) *store {
	s := &store{file: file, busyTimeout: opts.BusyTimeout, sys: sys, clock: clock{source: sys.clockSource}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.watcher.freed = make(map[string]model.Time)
	connection := func(busyTimeout int) *conn {
		return &conn{file: s.file, dsn: dsn(file.path, opts.FullSync, busyTimeout), at: sys.at}
	}
	s.writer, s.reader, s.checkpointer = connection(0), connection(0), connection(checkpointTimeout)
	return s
}

// checkpointTimeout is how many ms a checkpoint waits for readers. Renewals wait, too.
const checkpointTimeout = 20

// dsn returns the file in the form that the SQLite driver requires: a URI in which no
// character of the name has a special meaning. SQLite does not create the file, because
// its permissions would depend on the umask.
func dsn(file string, fullSync bool, busyTimeout int) string {
	path := filepath.ToSlash(file)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/dir/file.db
	}
	synchronous := "normal"
	if fullSync {
		synchronous = "full"
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{
		"mode":          {"rw"},
		"_busy_timeout": {fmt.Sprint(busyTimeout)},
		"_synchronous":  {synchronous},
		"_error_rc":     {"1"},
		"_pragma":       {fmt.Sprintf("journal_size_limit(%d)", maxLog), "wal_autocheckpoint(0)"},
	}.Encode()}
	return u.String()
}

// Traits implements base.Backend.
func (s *store) Traits() hf.Traits { return Traits() }

// Close implements base.Backend. It waits for statements that are under way, not for
// other processes.
func (s *store) Close() error {
	s.closing.Do(func() {
		s.watcher.mu.Lock() // no watcher starts from now on
		s.cancel()
		s.watcher.mu.Unlock()
		for _, c := range []*conn{s.reader, s.checkpointer, s.writer} {
			_ = c.line.Enter(context.Background(), false) // later callers are refused; see enter
			c.line.Leave()
		}
		s.background.Wait()
		s.watcher.hub.Close()
		s.closeErr = s.wrap(errors.Join(s.reader.close(), s.checkpointer.close(), s.writer.close()))
	})
	return s.closeErr
}

// Update implements base.Backend by one transaction. It has the write lock from its first
// statement on, so no other change comes between a decision and its commit. Only the
// answer to COMMIT can be lost, unless this process ends. If ctx ends while another
// process has the write lock, nothing is changed.
func (s *store) Update(ctx context.Context, us []base.Update, urgent bool) error {
	var wake []model.Record
	err := s.write(ctx, urgent, func(c *conn) error {
		wake = wake[:0]
		for i := range us {
			ch, err := s.decide(c, &us[i])
			if err != nil {
				return err
			}
			if ch.Wake {
				wake = append(wake, ch.Record)
			}
		}
		return nil
	}, func(c *conn) need { return s.needed(c, us) })
	if err != nil {
		return err
	}
	for _, r := range wake {
		s.watcher.note(r.Resource, r.Touched, false)
	}
	return nil
}

// decide makes one update. It returns errors of the file, which end the transaction. If
// the row is damaged, only the update gets an error.
func (s *store) decide(c *conn, u *base.Update) (base.Change, error) {
	e, listed, err := s.load(c, u.Resource)
	if u.Err = nil; errors.Is(err, hf.ErrDamaged) {
		u.Err = err
		return base.Change{}, nil
	}
	if err != nil {
		return base.Change{}, err
	}
	ch := u.Decide(e)
	var n int64
	switch ch.Action {
	case base.Put:
		n, err = put(c, ch, e.Missing || listed)
	case base.Delete:
		n, err = c.exec(deleteSQL, u.Resource)
	default:
		return base.Change{}, nil
	}
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows of %q were changed instead of one", n, u.Resource)
	}
	return ch, err
}

// put stores a record. A row that it inserts is listed.
func put(c *conn, ch base.Change, listed bool) (rows int64, err error) {
	r := ch.Record
	holds, err := encoded(r.Holds, model.EncodeHolds)
	if err != nil {
		return 0, err
	}
	places, err := encoded(r.Places, model.EncodePlaces)
	if err != nil {
		return 0, err
	}
	if !listed && (holds != nil || places != nil) {
		if n, err := c.exec(listSQL, r.Resource); err != nil || n != 1 {
			return n, err
		}
	}
	freed := int64(0)
	if ch.Wake {
		freed = int64(r.Touched)
	}
	return c.exec(putSQL, int64(r.Touched), int64(r.Token), freed, holds, places, r.Resource)
}

// encoded returns a list as its column has it: NULL if it is empty.
func encoded[T any](list []T, encode func([]T) ([]byte, error)) (driver.Value, error) {
	if len(list) == 0 {
		return nil, nil
	}
	text, err := encode(list)
	return string(text), err
}

// decoded returns the list in a column.
func decoded[T any](column string, value driver.Value, decode func([]byte) ([]T, error)) ([]T, error) {
	switch text := value.(type) {
	case nil:
		return nil, nil
	case string:
		return decode([]byte(text))
	default:
		return nil, fmt.Errorf("%s are %T", column, text)
	}
}

// needed decides an update on a plain read, which takes no lock, and returns why the
// decision has to change the record. So a refusal does not wait for another process that
// keeps the write lock, or not for long if it gives its waiter a place.
func (s *store) needed(c *conn, us []base.Update) need {
	if len(us) != 1 {
		return forAnswer
	}
	e, _, err := s.load(c, us[0].Resource)
	if err != nil || s.file.checkReplaced() != nil {
		return forAnswer
	}
	switch ch := us[0].Decide(e); {
	case ch.Courtesy:
		return forPlace
	case ch.Action == base.Keep || ch.Action == base.Confirm:
		return forNothing
	}
	return forAnswer
}

// load reads the record of a resource, and whether it is listed.
func (s *store) load(c *conn, resource string) (e base.Entry, listed bool, err error) {
	found := false
	err = c.query(loadSQL, func(row []driver.Value) (err error) {
		found = true
		e, listed, err = s.entry(row)
		return err
	}, resource)
	if err != nil || found {
		return e, listed, err
	}
	var floor int64
	if err := c.integers(floorSQL, nil, &floor); err != nil {
		return base.Entry{}, false, err
	}
	return base.Missing(resource, uint64(max(floor, 0)), s.clock.now()), false, nil
}

// entry makes an Entry from touched, listed, token, holds, resource and places. It never
// guesses: a wrongly decoded record could lead to a second grant.
func (s *store) entry(row []driver.Value) (e base.Entry, listed bool, err error) {
	name, _ := row[4].(string)
	touched, _ := row[0].(int64)
	token, _ := row[2].(int64)
	e.Record = model.Record{Resource: name, Touched: model.Time(touched), Token: uint64(token)}
	if touched <= 0 || touched > hf.MaxToken || token <= 0 || token > hf.MaxToken {
		err = fmt.Errorf("touched is %v, token is %v", row[0], row[2])
	}
	var errHolds, errPlaces error
	e.Record.Holds, errHolds = decoded("holds", row[3], model.DecodeHolds)
	e.Record.Places, errPlaces = decoded("places", row[5], model.DecodePlaces)
	err = errors.Join(err, errHolds, errPlaces)
	if err != nil {
		return base.Entry{}, false, fmt.Errorf("SQLite file %s: %w of %q: %w", s.file.path, hf.ErrDamaged, name, err)
	}
	e.Now = s.clock.now()
	return e, row[1] != nil, nil
}
