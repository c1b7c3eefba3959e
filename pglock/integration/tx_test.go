package pglock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/pglock"
)

// begin starts a transaction of a user's, which is rolled back in the end.
func begin(t *testing.T, pool *pgxpool.Pool, o pgx.TxOptions) pgx.Tx {
	t.Helper()
	tx, err := pool.BeginTx(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

func commit(t *testing.T, tx pgx.Tx) {
	t.Helper()
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// mustBeBusy asks for a resource whose row a transaction keeps locked: nothing is
// known, and so nothing says that it is held.
func mustBeBusy(t *testing.T, s driver.Store, resource string) {
	t.Helper()
	_, err := s.Acquire(t.Context(), ask.Request(resource, "b"))
	faults.MustBeUnknown(t, err)
	if !errors.Is(err, pglock.ErrBusy) {
		t.Errorf("error %v", err)
	}
}

// Lock and work commit together, and roll back together. Meanwhile nobody else gets
// the lock.
func TestAcquireTx(t *testing.T) {
	d := newDatabase(t)
	run(t, d.near, "CREATE TABLE work (n int)")
	for mode, url := range map[string]string{"directly": d.url, "through PgBouncer": engines.PgBouncer(t, d.url)} {
		t.Run(mode, func(t *testing.T) {
			at := &database{url: url, near: d.near}
			p := openPlace(t, at, schema(), at.pool(t))
			run(t, d.near, "DELETE FROM work")
			done := func() (n int) {
				if err := d.near.QueryRow(t.Context(), "SELECT count(*) FROM work").Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			for _, commits := range []bool{false, true} {
				tx := begin(t, at.pool(t), pgx.TxOptions{})
				ref, err := p.AcquireTx(t.Context(), tx, driver.AcquireRequest{Resource: "r", LockID: "a", TTL: time.Hour})
				if err != nil {
					t.Fatal(err)
				}
				if ref.HoldID.IsZero() || ref.Token == 0 || ref.Resource != "r" || ref.LockID != "a" {
					t.Errorf("hold %+v", ref)
				}
				if _, err := tx.Exec(t.Context(), "INSERT INTO work VALUES (1)"); err != nil {
					t.Fatal(err)
				}
				mustBeBusy(t, p, "r")
				if st := p.held(t, "r"); st.LockID != "" {
					t.Errorf("seen before the commit: %+v", st)
				}
				if !commits {
					if err := tx.Rollback(t.Context()); err != nil {
						t.Fatal(err)
					}
					release(t, p, true, ask.Granted(t, p, ask.Request("r", "b")))
					ask.Lost(t, p, ref)
					if n := done(); n != 0 {
						t.Errorf("%d rows", n)
					}
					continue
				}
				commit(t, tx)
				if held := ask.Refused(t, p, ask.Request("r", "b")); len(held.Holders) != 1 || held.Holders[0].Ref() != ref {
					t.Errorf("refusal %+v", held)
				}
				if n := done(); n != 1 {
					t.Errorf("%d rows", n)
				}
				rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}})
				if err != nil || rs[0].Err != nil {
					t.Errorf("renew: %v, %v", rs, err)
				}
				release(t, p, true, ref)
			}
		})
	}
}

// As long as a transaction may commit, its hold is neither there nor lost, also if the
// transaction has made the row, which is not visible yet.
func TestChangesBesideTx(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	tx := begin(t, d.pool(t), pgx.TxOptions{})
	ref, err := p.AcquireTx(t.Context(), tx, ask.Request("r", "a"))
	if err != nil {
		t.Fatal(err)
	}
	lost := driver.HoldRef{Resource: "none", LockID: "a", HoldID: ref.HoldID}
	renewed, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}, {HoldRef: lost, TTL: time.Hour}})
	if err != nil || !errors.Is(renewed[0].Err, pglock.ErrBusy) {
		t.Errorf("renewals %v, error %v", renewed, err)
	}
	released, err := p.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
	if err != nil || !errors.Is(released[0].Err, pglock.ErrBusy) {
		t.Errorf("releases %v, error %v", released, err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask.Lost(t, p, ref)
	ask.Lost(t, p, lost)
	var rows int
	if err := p.near.QueryRow(t.Context(), "SELECT count(*) FROM "+p.name+".locks").Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d rows, error %v: nothing was granted", rows, err)
	}
}

// The TTL counts from the call: not from the transaction's beginning, which may be
// long ago, and whose time now() would be.
func TestAcquireTxLate(t *testing.T) {
	url, clock := engines.PostgresClock(t)
	d := inDatabase(t, url)
	p := newStore(t, d)
	tx := begin(t, d.pool(t), pgx.TxOptions{})
	if _, err := tx.Exec(t.Context(), "SELECT now()"); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Hour)
	if _, err := p.AcquireTx(t.Context(), tx, driver.AcquireRequest{Resource: "r", LockID: "a", TTL: time.Minute}); err != nil {
		t.Fatal(err)
	}
	commit(t, tx)
	if st := p.held(t, "r"); st.LockID != "a" || st.Left != time.Minute {
		t.Errorf("held %+v, want %v left", st, time.Minute)
	}
}

// A refusal leaves the transaction as it was, with its settings, whether because of a
// hold or of another transaction.
func TestAcquireTxRefused(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	ask.Granted(t, p, ask.Request("held", "a"))
	other := begin(t, d.pool(t), pgx.TxOptions{})
	q := func(resource string) driver.AcquireRequest {
		return driver.AcquireRequest{Resource: resource, LockID: "b", TTL: time.Hour}
	}
	for _, resource := range []string{"new", "another"} {
		if _, err := p.AcquireTx(t.Context(), other, q(resource)); err != nil {
			t.Fatal(err)
		}
	}
	release(t, p, true, ask.Granted(t, p, ask.Request("free", "a")))
	p.lockRow(t, "free")

	tx := begin(t, d.pool(t), pgx.TxOptions{})
	show := func(name string) (value string) {
		if err := tx.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	for _, sql := range []string{"SET LOCAL lock_timeout = '7s'", "SET LOCAL synchronous_commit = off"} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for resource, want := range map[string]error{
		"held": driver.ErrHeld, "new": pglock.ErrBusy, "another": pglock.ErrBusy, "free": pglock.ErrBusy,
	} {
		if _, err := p.AcquireTx(t.Context(), tx, q(resource)); !errors.Is(err, want) {
			t.Errorf("%s: %v", resource, err)
		}
		if got := show("lock_timeout"); got != "7s" {
			t.Errorf("%s: lock_timeout is %s", resource, got)
		}
	}
	for _, bad := range []driver.AcquireRequest{
		{Resource: "", LockID: "b", TTL: time.Hour},
		{Resource: "r", LockID: "b"},
		{Resource: "r", LockID: "b", TTL: time.Hour, Mode: driver.Shared},
	} {
		if _, err := p.AcquireTx(t.Context(), tx, bad); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%+v: error %v", bad, err)
		}
	}
	if _, err := p.AcquireTx(t.Context(), tx, q("mine")); err != nil {
		t.Fatal(err)
	}
	if got := show("lock_timeout"); got != "7s" {
		t.Errorf("lock_timeout is %s", got)
	}
	if got := show("synchronous_commit"); got != "on" {
		t.Errorf("synchronous_commit is %s: a crash could take the lock back", got)
	}
	commit(t, tx)
	if st := p.held(t, "mine"); st.LockID != "b" {
		t.Errorf("the store has %+v", st)
	}
}

// What a transaction cannot see it does not decide on: the server gives it up,
// whatever its snapshot shows, and whatever has become of that.
func TestAcquireTxRepeatableRead(t *testing.T) {
	d := newDatabase(t)
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		for name, c := range map[string]struct{ before, after string }{
			"made":                  {"", "a"},
			"made and released":     {"", "a-"},
			"taken":                 {"a-", "a"},
			"released":              {"a", "-"},
			"released and retaken":  {"a", "-b"},
			"released, asked by it": {"x", "-"}, // whose repeat finds it in the snapshot
			"renewed":               {"a", "+"},
		} {
			t.Run(string(level)+"/"+name, func(t *testing.T) {
				p := newStore(t, d)
				hold := ask.Request("r", "x")
				do := func(steps string) {
					for _, step := range steps {
						switch step {
						case '-':
							st := p.held(t, "r")
							release(t, p, true, st.Ref())
						case '+':
							rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: p.held(t, "r").Ref(), TTL: 2 * time.Hour}})
							if err != nil || rs[0].Err != nil {
								t.Fatalf("%v %v", rs, err)
							}
						case 'x':
							ask.Granted(t, p, hold)
						default:
							ask.Granted(t, p, ask.Request("r", string(step)))
						}
					}
				}
				do(c.before)
				tx := begin(t, d.pool(t), pgx.TxOptions{IsoLevel: level})
				if _, err := tx.Exec(t.Context(), "SELECT FROM "+p.name+".locks"); err != nil {
					t.Fatal(err)
				}
				do(c.after)
				_, err := p.AcquireTx(t.Context(), tx, hold)
				var refused *pgconn.PgError
				if !errors.As(err, &refused) || refused.Code != "40001" || errors.Is(err, driver.ErrHeld) {
					t.Errorf("error %v, want 40001", err)
				}
			})
		}
	}
}

// What has not changed since the snapshot is decided as ever, and a refusal keeps
// no lock on the row: who holds it can renew it.
func TestAcquireTxRefusedKeepsNoLock(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		held := ask.Granted(t, p, ask.Request(string(level), "a"))
		tx := begin(t, d.pool(t), pgx.TxOptions{IsoLevel: level})
		_, err := p.AcquireTx(t.Context(), tx, ask.Request(string(level), "b"))
		var refusal *driver.HeldError
		if !errors.As(err, &refusal) || len(refusal.Holders) != 1 {
			t.Errorf("%s: error %v, want a refusal", level, err)
		}
		rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: held, TTL: time.Hour}})
		if err != nil || rs[0].Err != nil {
			t.Errorf("%s: renewal %v, error %v", level, rs, err)
		}
		if _, err := tx.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("%s: %v", level, err)
		}
		if err := tx.Rollback(t.Context()); err != nil { // a serializable one would refuse to commit beside the renewal
			t.Error(err)
		}
	}
}

// A repeat of what was committed without an answer is granted the same hold, and
// keeps others out until its transaction ends, be the hold past its end by then.
func TestAcquireTxRepeated(t *testing.T) {
	url, clock := engines.PostgresClock(t)
	d := inDatabase(t, url)
	p := newStore(t, d)
	q := ask.Request("r", "a")
	q.TTL = time.Minute
	var refs [2]driver.HoldRef
	for i := range refs {
		tx := begin(t, d.pool(t), pgx.TxOptions{})
		ref, err := p.AcquireTx(t.Context(), tx, q)
		if err != nil {
			t.Fatal(err)
		}
		refs[i] = ref
		if i == 1 {
			clock.Advance(2 * time.Minute)
			mustBeBusy(t, p, "r")
		}
		commit(t, tx)
	}
	if refs[0] != refs[1] {
		t.Errorf("the repeat has %+v, the first try %+v", refs[1], refs[0])
	}
	ask.Granted(t, p, ask.Request("r", "b"))
}

// A waiter of a Client gets what a transaction had.
func TestWaitForTx(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	c := holdfast.New(p.Store, nil)
	defer c.Close()
	tx := begin(t, d.pool(t), pgx.TxOptions{})
	ref, err := p.AcquireTx(t.Context(), tx, driver.AcquireRequest{Resource: "r", LockID: "b", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.TryLock(t.Context(), "r", nil); !errors.Is(err, pglock.ErrBusy) {
		t.Errorf("error %v", err)
	}
	got := make(chan error, 1)
	go func() {
		_, err := c.Lock(t.Context(), "r", nil)
		got <- err
	}()
	ask.Until(t, "it waits", func() bool { return p.waiting(t) > 0 })
	commit(t, tx)
	if all, err := c.Admin().ReleaseID(t.Context(), "b"); err != nil || len(all) != 1 || all[0].Ref() != ref {
		t.Errorf("released %+v, error %v", all, err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}
