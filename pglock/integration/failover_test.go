package pglock_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/pglock"
)

// attempt asks once, for a moment: as long as commits wait for the standby nothing
// is answered.
func attempt(t *testing.T, p *place, q driver.AcquireRequest) (driver.Grant, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return p.Acquire(ctx, q)
}

// visible returns when no commit waits for the standby any more: the hold is there
// to be seen on the primary, and nowhere else.
func (p *place) visible(t *testing.T, q driver.AcquireRequest) driver.Status {
	t.Helper()
	ask.Until(t, "the waits for the standby are given up", func() (over bool) {
		if err := p.near.QueryRow(t.Context(),
			"SELECT count(*) = 0 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'SyncRep'").Scan(&over); err != nil {
			t.Fatal(err)
		}
		return over
	})
	st := p.held(t, q.Resource)
	if st.HoldID != q.HoldID {
		t.Fatalf("the primary has %+v", st)
	}
	return st
}

// The first try gets no answer, for its commit waits for the standby. The hold is
// there to be seen on the primary, and still no repeat may say so: the standby that
// takes over grants it to another.
func TestRepeatWaitsForStandby(t *testing.T) {
	pair := engines.NewPostgresPair(t)
	p := newStore(t, inDatabase(t, pair.URL))
	pair.Cut(t)
	q := ask.Request("r", "a")
	_, err := attempt(t, p, q)
	faults.MustBeUnknown(t, err)
	p.visible(t, q)
	for range 3 {
		if g, err := attempt(t, p, q); err == nil {
			t.Fatalf("a repeat was granted %+v, which no standby has", g)
		} else {
			faults.MustBeUnknown(t, err)
		}
		p.visible(t, q)
	}
	pair.FailOver(t)
	other := ask.Request("r", "b")
	ask.Until(t, "the new primary is reached", func() bool {
		_, err := attempt(t, p, other)
		return err == nil
	})
	if held := ask.Refused(t, p, q); len(held.Holders) != 1 || held.Holders[0].HoldID != other.HoldID {
		t.Errorf("refusal %+v", held)
	}
}

// A role that does not wait for its commits to be safe has grants, repeats and
// transactions wait all the same.
func TestSynchronousCommitOff(t *testing.T) {
	pair := engines.NewPostgresPair(t)
	d := inDatabase(t, pair.URL)
	pool := d.pool(t, setting("synchronous_commit", "off"))
	p := openPlace(t, d, schema(), pool)
	q := ask.Request("r", "a")
	pair.Cut(t)
	for range 2 {
		_, err := attempt(t, p, q)
		faults.MustBeUnknown(t, err)
		p.visible(t, q)
	}
	// A repeat in a transaction is as safe as that transaction is.
	tx := begin(t, pool, pgx.TxOptions{})
	if _, err := p.AcquireTx(t.Context(), tx, q); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := tx.Commit(ctx); err == nil {
		t.Error("the transaction did not wait for the standby")
	}
}

// A standby may lag behind: not even a refusal of it can be relied on.
func TestStandby(t *testing.T) {
	pair := engines.NewPostgresPair(t)
	p := newStore(t, inDatabase(t, pair.URL))
	ask.Granted(t, p, ask.Request("held", "a"))
	pool := inDatabase(t, pair.Standby.URL).pool(t)
	for there := false; !there; { // until the standby has the schema
		if err := pool.QueryRow(t.Context(), "SELECT to_regnamespace($1) IS NOT NULL", p.name).Scan(&there); err != nil {
			t.Fatal(err)
		}
	}
	s := pglock.New(pool, &pglock.Options{Schema: p.name})
	defer closeStore(t, s)
	err := s.Init(t.Context())
	faults.MustBeUnknown(t, err) // it may take over
	if !strings.Contains(err.Error(), "standby") {
		t.Errorf("error %v does not say why", err)
	}
	_, err = s.Acquire(t.Context(), ask.Request("held", "b"))
	faults.MustBeUnknown(t, err)
	for _, err := range s.List(t.Context(), driver.Filter{}) {
		faults.MustBeUnknown(t, err)
	}
	_, err = s.Watch(t.Context(), "held")
	faults.MustBeUnknown(t, err)
}

// A server that is read-only for some time, as one from which another takes over,
// is no reason to give up.
func TestReadOnlyForAWhile(t *testing.T) {
	server := engines.NewPostgres(t)
	d := inDatabase(t, server.URL)
	p := newStore(t, d)
	held := ask.Granted(t, p, ask.Request("held", "a"))
	admin, err := pgx.Connect(t.Context(), server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	readOnly := func(value string) {
		t.Helper()
		for _, sql := range []string{
			"SET default_transaction_read_only = off",
			"ALTER SYSTEM SET default_transaction_read_only = " + value, "SELECT pg_reload_conf()",
		} {
			if _, err := admin.Exec(t.Context(), sql); err != nil {
				t.Fatal(err)
			}
		}
		ask.Until(t, "the server is so", func() bool {
			var now string
			conn, err := pgx.Connect(t.Context(), server.URL)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(t.Context())
			if err := conn.QueryRow(t.Context(), "SHOW default_transaction_read_only").Scan(&now); err != nil {
				t.Fatal(err)
			}
			return now == value
		})
	}
	readOnly("on")
	_, err = p.Acquire(t.Context(), ask.Request("r", "a"))
	faults.MustBeUnknown(t, err)
	rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: held, TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	faults.MustBeUnknown(t, rs[0].Err)
	faults.MustBeUnknown(t, p.Init(t.Context()))
	readOnly("off")
	// The first that asks finds it out: what was left in the pool is not used.
	ask.Granted(t, p, ask.Request("r", "a"))
	release(t, p, true, held)
}
