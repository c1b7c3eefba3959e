package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/journal"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/pglock"
)

// The connection for notifications ends and cannot be opened for a while: those who
// watch get a signal when there is another, for nobody knows what they missed, and
// then every release.
func TestNotificationsComeBack(t *testing.T) {
	d := newDatabase(t)
	near := newStore(t, d)
	n := proxy.New(t)
	var log journal.Journal
	s := pglock.New(behind(t, d, n), &pglock.Options{Schema: near.name, Logger: log.Logger()})
	defer closeStore(t, s)
	ref := ask.Granted(t, near, ask.Request("r", "a"))
	signals, err := s.Watch(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	if !log.Has("woken by notifications") {
		t.Error("the log does not say how waiters are woken")
	}
	n.Refuse()
	ask.Until(t, "the loss is noticed", func() bool { return log.Has("failed") })
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	if _, err := s.Watch(ctx, "another"); err == nil {
		t.Error("Watch returned without a connection")
	}
	cancel()
	release(t, near, true, ref) // nobody hears of it
	// The mark is gone as well, as after a crash.
	near.exec(t, "UPDATE SCHEMA.locks SET watched = 0")
	n.Accept()
	ask.Woken(t, signals, "there is a connection again")
	release(t, near, true, ask.Granted(t, near, ask.Request("r", "b")))
	ask.Woken(t, signals, "a release")
	if !s.Traits().Notifies {
		t.Error("the store has given up for good")
	}
}

// One statement would keep the rows of all that is watched locked, and renewals wait
// for them.
func TestMarksInChunks(t *testing.T) {
	p := newStore(t, newDatabase(t))
	var signals <-chan struct{}
	for i := range 501 {
		var err error
		if signals, err = p.Watch(t.Context(), fmt.Sprint("r", i)); err != nil {
			t.Fatal(err)
		}
	}
	p.exec(t, "UPDATE SCHEMA.locks SET watched = 0")
	p.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'")
	ask.Woken(t, signals, "the connection is open again")
	var marked, statements int
	err := p.near.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT xmin::text) FROM "+p.name+".locks WHERE watched > 0").Scan(&marked, &statements)
	if err != nil || marked != 501 || statements != 2 {
		t.Errorf("%d rows marked by %d statements, error %v", marked, statements, err)
	}
}

// A session of another program that does not read the server's queue of notifications
// fills it up, and then no transaction that notifies can commit. Locks are released all
// the same.
func TestNotificationsFull(t *testing.T) {
	server := engines.NewPostgres(t, "max_notify_queue_pages=64")
	p := newStore(t, inDatabase(t, server.URL))
	reader, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.WithoutCancel(t.Context()))
	// In one message they would be one transaction, and it listens only when it commits.
	for _, statement := range []string{"LISTEN other", "BEGIN", "SELECT 1"} {
		if _, err := reader.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	ref := ask.Granted(t, p, ask.Request("r", "a"))
	short := ask.Request("short", "a")
	short.TTL = time.Millisecond
	ask.Granted(t, p, short)
	for _, resource := range []string{"r", "short"} {
		if _, err := p.Watch(t.Context(), resource); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; err == nil; i++ {
		_, err = p.near.Exec(t.Context(), "SELECT pg_notify('other', $1 || repeat('x', 7900))", fmt.Sprint(i))
	}
	if !strings.Contains(err.Error(), "too many notifications") {
		t.Fatal(err)
	}
	release(t, p, true, ref)
	if r, err := p.Sweep(t.Context(), driver.SweepRequest{}); err != nil || r.Holds != 1 {
		t.Errorf("swept %+v, error %v", r, err)
	}
}

// A release is told where somebody has asked for it, and only there.
func TestNotifiesWatchersOnly(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	listener, err := pgx.Connect(t.Context(), d.url)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close(context.WithoutCancel(t.Context()))
	if _, err := listener.Exec(t.Context(), "LISTEN holdfast_"+p.name); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Watch(t.Context(), "watched"); err != nil {
		t.Fatal(err)
	}
	for _, r := range []string{"ignored", "watched", "ignored too"} {
		ref := ask.Granted(t, p, ask.Request(r, "a"))
		_ = ask.Refused(t, p, ask.Request(r, "b"))
		release(t, p, false, driver.HoldRef{Resource: r, LockID: "b", HoldID: driver.NewHoldID()})
		release(t, p, true, ref)
	}
	if _, err := p.near.Exec(t.Context(), "SELECT pg_notify($1, 'the end')", "holdfast_"+p.name); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"watched", "the end"} {
		n, err := listener.WaitForNotification(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n.Payload != want {
			t.Errorf("told %q, want %q", n.Payload, want)
		}
	}
	// As long as somebody may wait, the row stays.
	p.exec(t, "UPDATE SCHEMA.locks SET touched = 0, token = 0")
	if r, err := p.Sweep(t.Context(), driver.SweepRequest{}); err != nil || r.Records != 2 {
		t.Errorf("swept %+v, error %v", r, err)
	}
	p.exec(t, "UPDATE SCHEMA.locks SET watched = 1")
	if r, err := p.Sweep(t.Context(), driver.SweepRequest{}); err != nil || r.Records != 1 {
		t.Errorf("swept %+v, error %v", r, err)
	}
}

// Behind PgBouncer in transaction mode the suite passes; nothing is prepared, and
// no notification comes.
func TestConformanceBehindPgBouncer(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: behind PgBouncer")
	d := newDatabase(t)
	bounced := &database{url: engines.PgBouncer(t, d.url), near: d.near}
	drivertest.Run(t, pollingOnly(onSetClock(d, bounced)))
}

func pollingOnly(harness func(t *testing.T) *drivertest.Harness) func(t *testing.T) *drivertest.Harness {
	return func(t *testing.T) *drivertest.Harness {
		h := harness(t)
		open := h.Reopen
		h.Store, h.Reopen = polling{h.Store}, func(t *testing.T) driver.Store { return polling{open(t)} }
		return h
	}
}

// polling is a store whose wake-ups are known not to work.
type polling struct{ driver.Store }

func (p polling) Init(ctx context.Context) error { return p.Store.(driver.Initializer).Init(ctx) }

func (p polling) Traits() driver.Traits {
	t := p.Store.Traits()
	t.Notifies = false
	return t
}

func (p polling) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, p.Store, f)
}

// The store finds out that it would hear nothing, and waiters poll.
func TestWatchBehindPgBouncer(t *testing.T) {
	d := newDatabase(t)
	near := newStore(t, d)
	bounced := &database{url: engines.PgBouncer(t, d.url)}
	var log journal.Journal
	s := pglock.New(bounced.pool(t), &pglock.Options{Schema: near.name, Logger: log.Logger()})
	defer closeStore(t, s)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) {
		t.Fatalf("error %v, want ErrUnsupported", err)
	}
	ask.Until(t, "the log says that waiters poll", func() bool { return log.Has("waiters poll") })
	if s.Traits().Notifies {
		t.Error("it notifies")
	}
	ref := ask.Granted(t, near, ask.Request("r", "a"))
	c := holdfast.New(s, nil)
	defer c.Close()
	got := make(chan error, 1)
	go func() {
		_, err := c.Lock(t.Context(), "r", nil)
		got <- err
	}()
	release(t, near, true, ref)
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// Who wants no connection for wake-ups has none.
func TestPoll(t *testing.T) {
	d := newDatabase(t)
	s := pglock.New(d.pool(t), &pglock.Options{Schema: schema(), Poll: true})
	defer closeStore(t, s)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Watch(t.Context(), "r"); !errors.Is(err, driver.ErrUnsupported) || s.Traits().Notifies {
		t.Errorf("error %v, notifies: %v", err, s.Traits().Notifies)
	}
}

// inParallel acquires and releases four resources at once, 20 times each.
func inParallel(t *testing.T, s driver.Store) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for range 20 {
				q := ask.Request(fmt.Sprint("r", i), "a")
				g, err := s.Acquire(t.Context(), q)
				if err != nil {
					t.Error(err)
					return
				}
				rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: driver.HoldRef{
					Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token,
				}}})
				if err != nil || rs[0].Err != nil || !rs[0].Found {
					t.Errorf("release: %+v, %v", rs, err)
				}
			}
		})
	}
	all.Wait()
}
