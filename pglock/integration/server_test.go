package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/pglock"
)

func setting(name, value string) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams[name] = value }
}

// The server is killed while a statement waits. What was granted is there when it
// is back, tokens go on rising, and the statement's outcome is unknown.
func TestRestartInMidStatement(t *testing.T) {
	server := engines.NewPostgres(t)
	d := inDatabase(t, server.URL)
	p := newStore(t, d)
	held := ask.Granted(t, p, ask.Request("held", "a"))
	last := ask.Granted(t, p, ask.Request("r", "a"))
	release(t, p, true, last)
	tx := p.lockRow(t, "r")
	got := make(chan error, 1)
	go func() {
		_, err := p.Acquire(t.Context(), ask.Request("r", "b"))
		got <- err
	}()
	ask.Until(t, "the statement waits", func() bool { return p.waiting(t) > 0 })
	server.Stop()
	faults.MustBeUnknown(t, <-got)
	_ = tx.Rollback(t.Context()) // its connection is gone, too
	_, err := p.Acquire(t.Context(), ask.Request("r", "b"))
	faults.MustBeUnknown(t, err)
	server.Restart(t)
	ask.Until(t, "the server is back", func() bool { return p.Init(t.Context()) == nil })
	ask.Until(t, "connections are new", func() bool {
		_, err := p.Acquire(t.Context(), ask.Request("held", "b"))
		return errors.Is(err, driver.ErrHeld)
	})
	ask.Until(t, "all connections are new", func() bool {
		rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: held, TTL: time.Hour}})
		return err == nil && rs[0].Err == nil
	})
	var next driver.HoldRef
	ask.Until(t, "granted", func() bool {
		g, err := p.Acquire(t.Context(), ask.Request("r", "b"))
		next.Token = g.Token
		return err == nil
	})
	if next.Token <= last.Token {
		t.Errorf("token %d follows %d", next.Token, last.Token)
	}
}

// lockRow locks the row of a resource as somebody's transaction would. It ends with
// the test.
func (p *place) lockRow(t *testing.T, resource string) pgx.Tx {
	t.Helper()
	tx, err := p.near.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	if _, err := tx.Exec(t.Context(), "SELECT FROM "+p.name+".locks WHERE resource = $1 FOR UPDATE", resource); err != nil {
		t.Fatal(err)
	}
	return tx
}

// waiting is how many sessions of the database wait for a lock.
func (d *database) waiting(t *testing.T) (n int) {
	t.Helper()
	err := d.near.QueryRow(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever isolation transactions have by default, the suite passes: what the
// server gives up is asked again.
func TestIsolation(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: at each level of isolation")
	d := newDatabase(t)
	for _, level := range []string{"repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			drivertest.Run(t, harnesses(d, setting("default_transaction_isolation", level)))
		})
	}
}

// Many at once under serializable isolation: nobody gets an error but "held", and
// no two hold it.
func TestSerializationFailures(t *testing.T) {
	d := newDatabase(t)
	name := schema()
	var all sync.WaitGroup
	var inside sync.Mutex
	for range 4 {
		p := openPlace(t, d, name, d.pool(t, setting("default_transaction_isolation", "serializable")))
		for range 2 {
			all.Go(func() {
				for n := 0; n < 25; {
					q := ask.Request("r", engines.Name())
					_, err := p.Acquire(t.Context(), q)
					if errors.Is(err, driver.ErrHeld) {
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					n++
					if !inside.TryLock() {
						t.Error("two have it")
						return
					}
					inside.Unlock()
					ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
					rs, err := p.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
					if err != nil || rs[0].Err != nil || !rs[0].Found {
						t.Errorf("release: %+v, %v", rs, err)
					}
				}
			})
		}
	}
	all.Wait()
}

// A row that stays locked: requests for it fail soon, and no others wait.
func TestLockedRow(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	refs := make([]driver.HoldRef, 3)
	for i, r := range []string{"a", "b", "c"} {
		refs[i] = ask.Granted(t, p, ask.Request(r, "me"))
	}
	free := ask.Granted(t, p, ask.Request("free", "me"))
	release(t, p, true, free)
	for _, r := range []string{"b", "free"} {
		p.lockRow(t, r)
	}
	began := time.Now()
	if held := ask.Refused(t, p, ask.Request("b", "other")); len(held.Holders) != 1 {
		t.Errorf("holders %+v", held.Holders)
	}
	mustBeBusy(t, p, "free")
	renewals, releases := make([]driver.RenewRequest, len(refs)), make([]driver.ReleaseRequest, len(refs))
	for i, ref := range refs {
		renewals[i], releases[i] = driver.RenewRequest{HoldRef: ref, TTL: 2 * time.Hour}, driver.ReleaseRequest{HoldRef: ref}
	}
	renewed, err := p.Renew(t.Context(), renewals)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range renewed {
		if i == 1 {
			faults.MustBeUnknown(t, r.Err)
		} else if r.Err != nil || r.Left < time.Hour {
			t.Errorf("renewal %d: %+v", i, r)
		}
	}
	if _, err := p.Watch(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "locked by another") {
		t.Errorf("watch: %v", err)
	}
	if _, err := p.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil {
		t.Error(err)
	}
	n := 0
	for _, err := range p.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Error(err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d holds", n)
	}
	released, err := p.Release(t.Context(), releases)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range released {
		if i == 1 {
			faults.MustBeUnknown(t, r.Err)
		} else if r.Err != nil || !r.Found {
			t.Errorf("release %d: %+v", i, r)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}

// Whatever a batch asks of a resource, its row is written once: holds that share it
// would else be written as often as there are holds, under one lock.
func TestBatchWritesRowOnce(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	p.exec(t, `CREATE TABLE SCHEMA.writes (n int)`)
	p.exec(t, `CREATE FUNCTION SCHEMA.count() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN INSERT INTO SCHEMA.writes VALUES (1); RETURN NULL; END $$`)
	var renewals []driver.RenewRequest
	var releases []driver.ReleaseRequest
	for _, lockID := range []string{"a", "b", "c"} {
		for _, resource := range []string{"r", "s"} {
			ref := ask.Granted(t, p, ask.Shared(ask.Request(resource, lockID), 0))
			renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: 2 * time.Hour})
			releases = append(releases, driver.ReleaseRequest{HoldRef: ref})
		}
	}
	p.exec(t, `CREATE TRIGGER count AFTER UPDATE ON SCHEMA.locks FOR EACH ROW EXECUTE FUNCTION SCHEMA.count()`)
	written := func(after string) {
		var n int
		if err := d.near.QueryRow(t.Context(), "SELECT count(*) FROM "+p.name+".writes").Scan(&n); err != nil {
			t.Fatal(err)
		}
		if n != 2 {
			t.Errorf("%s of 3 holds each wrote 2 rows %d times", after, n)
		}
		p.exec(t, "DELETE FROM SCHEMA.writes")
	}
	renewed, err := p.Renew(t.Context(), renewals)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range renewed {
		if r.Err != nil || r.Left <= time.Hour {
			t.Errorf("renewal %d: %+v", i, r)
		}
	}
	written("renewals")
	released, err := p.Release(t.Context(), append(releases, releases[0])) // which finds nothing
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range released {
		if r.Err != nil || r.Found != (i < len(releases)) {
			t.Errorf("release %d: %+v", i, r)
		}
	}
	written("releases")
}

// A row that is locked for a moment delays, and that is all, also where the role
// would rather not wait.
func TestLockedForAMoment(t *testing.T) {
	d := newDatabase(t)
	p := openPlace(t, d, schema(), d.pool(t, setting("lock_timeout", "1ms")))
	refs := []driver.HoldRef{ask.Granted(t, p, ask.Request("a", "me")), ask.Granted(t, p, ask.Request("b", "me"))}
	tx := p.lockRow(t, "b")
	got := make(chan []driver.ReleaseResult, 1)
	go func() {
		rs, err := p.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: refs[0]}, {HoldRef: refs[1]}})
		if err != nil {
			t.Error(err)
		}
		got <- rs
	}()
	ask.Until(t, "the release waits", func() bool { return p.waiting(t) > 0 })
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, r := range <-got {
		if r.Err != nil && !strings.Contains(r.Err.Error(), "locked") || r.Err == nil && !r.Found {
			t.Errorf("release %d: %+v", i, r)
		}
	}
}

// waiting is the request with a fair place in the queue.
func waiting(q driver.AcquireRequest) driver.AcquireRequest {
	q.Place, q.Fair = driver.NewPlaceID(), true
	return q
}

// A place in the queue is a courtesy: whoever cannot write it is refused all the same, and
// the refusal names no place that is not there.
func TestRefusalsNeedNoWrite(t *testing.T) {
	d := newDatabase(t)
	for name, raised := range map[string]string{
		"disk full": "RAISE disk_full USING MESSAGE = 'No space left on device'", "row stays as it is": "RETURN OLD",
	} {
		t.Run(name, func(t *testing.T) {
			p := newStore(t, d)
			p.exec(t, "CREATE FUNCTION SCHEMA.fails() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN "+raised+"; END$$")
			p.exec(t, "CREATE TRIGGER fails BEFORE INSERT OR UPDATE ON SCHEMA.locks FOR EACH ROW EXECUTE FUNCTION SCHEMA.fails()")
			set := func(state string) { p.exec(t, "ALTER TABLE SCHEMA.locks "+state+" TRIGGER fails") }
			set("DISABLE")
			refusalsNeedNoWrite(t, p, func() { set("ENABLE") }, func() { set("DISABLE") })
		})
	}
	t.Run("read-only session", func(t *testing.T) {
		var readOnly atomic.Bool
		pool := d.pool(t, func(c *pgxpool.Config) {
			c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				_, err := conn.Exec(ctx, fmt.Sprintf("SET default_transaction_read_only = %v", readOnly.Load()))
				return err
			}
		})
		set := func(is bool) {
			readOnly.Store(is)
			pool.Reset()
		}
		refusalsNeedNoWrite(t, openPlace(t, d, schema(), pool), func() { set(true) }, func() { set(false) })
	})
	t.Run("locked row", func(t *testing.T) {
		p := newStore(t, d)
		var held, free pgx.Tx
		refusalsNeedNoWrite(t, p, func() { held, free = p.lockRow(t, "r"), p.lockRow(t, "free") }, func() {
			commit(t, held)
			commit(t, free)
		})
	})
}

func refusalsNeedNoWrite(t *testing.T, p *place, begin, end func()) {
	p.stopClock(t) // so that no place ends, and none is old
	ref := ask.Granted(t, p, ask.Request("r", "a"))
	release(t, p, true, ask.Granted(t, p, ask.Request("free", "a")))
	refused := func(what string, q driver.AcquireRequest, position, waiters, ahead int) {
		t.Helper()
		q.HoldID = driver.NewHoldID()
		if e := ask.Refused(t, p, q); e.Position != position || e.Waiters != waiters || len(e.Ahead) != ahead || len(e.Holders) != 1 {
			t.Errorf("%s: position %d of %d waiters, %d ahead, %d holders, want position %d of %d, and %d ahead",
				what, e.Position, e.Waiters, len(e.Ahead), len(e.Holders), position, waiters, ahead)
		}
	}
	first, second, third := waiting(ask.Request("r", "b")), waiting(ask.Request("r", "c")), waiting(ask.Request("r", "d"))
	begin()
	refused("without places", first, driver.NoPlace, 0, 0)
	end()
	refused("first", first, 0, 1, 0)
	refused("second", second, 1, 2, 1)
	heir, other := second, first
	heir.LockID, other.Fair = "heir", false
	begin()
	refused("a fresh place", second, 1, 2, 1)
	refused("a place that another inherits", heir, driver.NoPlace, 1, 1)
	refused("a place of another kind", other, driver.NoPlace, 1, 1)
	refused("a new place", third, driver.NoPlace, 2, 2)
	refused("no place", ask.Request("r", "e"), driver.NoPlace, 2, 2)
	self := third
	self.LockID = "a"
	refused("its own hold", self, driver.NoPlace, 2, 2)
	_, err := p.Acquire(t.Context(), waiting(ask.Request("free", "b")))
	if err == nil || errors.Is(err, driver.ErrHeld) {
		t.Errorf("what is free: error %v", err)
	}
	end()
	refused("second, again", second, 1, 2, 1)
	refused("third", third, 2, 3, 2)
	release(t, p, true, ref)
	ask.Granted(t, p, first)
}

// A pool whose only connection is taken: holds are renewed and released all the
// same.
func TestFullPool(t *testing.T) {
	d := newDatabase(t)
	pool := d.pool(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
	p := openPlace(t, d, schema(), pool)
	c := holdfast.New(p.Store, nil)
	defer c.Close()
	h, err := c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	near := newNear(t, p)
	taken, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Release()
	for range 2 {
		before := near.held(t, "r").Renewed
		ask.Until(t, "it is renewed", func() bool { return near.held(t, "r").Renewed.After(before) })
	}
	if err := h.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if st := near.held(t, "r"); st.LockID != "" {
		t.Errorf("the server has %+v", st)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = p.Acquire(ctx, ask.Request("r", "b")) // which has its turn like any other work
	faults.MustBeUnknown(t, err)
}

// newNear is another store on the data of a place.
func newNear(t *testing.T, p *place) *place {
	t.Helper()
	return openPlace(t, p.database, p.name, p.pool(t))
}

// held is the hold of a resource.
func (p *place) held(t *testing.T, resource string) (found driver.Status) {
	t.Helper()
	for st, err := range p.List(t.Context(), driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		found = st
	}
	return found
}

// What is closed says so, and what is not the store's stays open.
func TestClose(t *testing.T) {
	d := newDatabase(t)
	pool := d.pool(t)
	s := pglock.New(pool, &pglock.Options{Schema: schema()})
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	signals, err := s.Watch(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	closeStore(t, s)
	if _, open := <-signals; open {
		t.Error("there was a signal")
	}
	if err := pool.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	faults.MustBeUnknown(t, rs[0].Err)
}
