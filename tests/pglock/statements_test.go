package pglock_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// statements are those that pgx sends for a pool and for what is made from its
// configuration. It implements pgx.QueryTracer and pgx.PrepareTracer.
type statements struct {
	mu   sync.Mutex
	sent []string
}

func (s *statements) add(statement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, statement)
}

func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "-- ping" { // a connection that was idle for long is tried
		s.add(data.SQL)
	}
	return ctx
}

func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

func (s *statements) TracePrepareStart(ctx context.Context, _ *pgx.Conn, data pgx.TracePrepareStartData) context.Context {
	s.add("prepare " + data.SQL)
	return ctx
}

func (s *statements) TracePrepareEnd(context.Context, *pgx.Conn, pgx.TracePrepareEndData) {}

// of are those that do sends.
func (s *statements) of(do func()) []string {
	s.mu.Lock()
	s.sent = nil
	s.mu.Unlock()
	do()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

func traced(s *statements) func(*pgxpool.Config) {
	return func(c *pgxpool.Config) { c.ConnConfig.Tracer = s }
}

// Every operation is one statement, once what it says is prepared; a batch is one
// for each 500.
func TestRoundTrips(t *testing.T) {
	var sent statements
	d := newDatabase(t)
	p := openPlace(t, d, schema(), d.pool(t, traced(&sent), func(c *pgxpool.Config) { c.MaxConns = 1 }))
	// Prepared, and connected.
	release(t, p, true, ask.Granted(t, p, ask.Request("first", "a")))
	if _, err := p.Watch(t.Context(), "watched"); err != nil {
		t.Fatal(err)
	}
	want := func(what string, n int, do func()) {
		t.Helper()
		if got := sent.of(do); len(got) != n {
			t.Errorf("%s: %d statements, want %d: %q", what, len(got), n, got)
		}
	}
	var ref driver.HoldRef
	want("init", 1, func() {
		if err := p.Init(t.Context()); err != nil {
			t.Error(err)
		}
	})
	want("acquire", 1, func() { ref = ask.Granted(t, p, ask.Request("first", "a")) })
	want("acquire of what is new", 1, func() { ask.Granted(t, p, ask.Request("new", "a")) })
	want("acquire that is refused", 1, func() { _ = ask.Refused(t, p, ask.Request("new", "b")) })
	want("acquire that gets a place", 1, func() { _ = ask.Refused(t, p, waiting(ask.Request("new", "b"))) })
	want("renew", 1, func() {
		if rs, err := p.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}}); err != nil || rs[0].Err != nil {
			t.Errorf("%v %v", rs, err)
		}
	})
	want("release", 1, func() { release(t, p, true, ref) })
	want("watch of what is watched", 0, func() {
		if _, err := p.Watch(t.Context(), "watched"); err != nil {
			t.Error(err)
		}
	})
	want("list", 1, func() { p.held(t, "new") })
	want("sweep", 1, func() {
		if _, err := p.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil {
			t.Error(err)
		}
	})
}

// 10,000 holds, as many lists and sweeps see, kept alive by 20 statements.
func TestManyHolds(t *testing.T) {
	const n = 10_000
	var sent statements
	d := newDatabase(t)
	p := openPlace(t, d, schema(), d.pool(t, traced(&sent)))
	qs := make([]driver.RenewRequest, n)
	for i := range qs {
		id := driver.HoldID{1: 1, 2: byte(i >> 8), 3: byte(i)}
		qs[i] = driver.RenewRequest{HoldRef: driver.HoldRef{
			Resource: fmt.Sprintf("r/%05d", (i*7919)%n), LockID: "a", HoldID: id, Token: 7,
		}, TTL: 2 * time.Hour}
	}
	resources, ids := make([]string, n), make([]string, n)
	for i, q := range qs {
		resources[i], ids[i] = q.Resource, q.HoldID.String()
	}
	p.exec(t, `INSERT INTO SCHEMA.locks (resource, token, touched, holds)
		SELECT r, 7, 1, jsonb_build_array(jsonb_build_object('lockId', 'a', 'holdId', id, 'mode', 'exclusive', 'token', 7, 'created', 1,
			'end', SCHEMA.clock() + 3600000000)) FROM unnest($1::text[], $2::text[]) AS t (r, id)`, resources, ids)
	began := time.Now()
	got := sent.of(func() {
		rs, err := p.Renew(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if r.Err != nil || r.Left < time.Hour {
				t.Fatalf("renewal %d: %+v", i, r)
			}
		}
	})
	t.Logf("renewed in %v", time.Since(began))
	if len(got) > n/500 {
		t.Errorf("%d statements", len(got))
	}
	seen := make(map[string]bool)
	for st, err := range p.List(t.Context(), driver.Filter{LockID: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		seen[st.Resource] = true
	}
	if len(seen) != n {
		t.Errorf("%d holds are listed", len(seen))
	}
	p.exec(t, `UPDATE SCHEMA.locks SET holds = jsonb_set(holds, '{0,end}', '1')`)
	if r, err := p.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil || r.Holds != n || r.Records != 0 {
		t.Errorf("swept %+v, error %v", r, err)
	}
	p.exec(t, `UPDATE SCHEMA.locks SET touched = 1, due = -1`)
	if r, err := p.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil || r.Records != n {
		t.Errorf("swept %+v, error %v", r, err)
	}
}

// A thousand refusals write nothing, not even a lock of the row.
func TestRefusalWritesNothing(t *testing.T) {
	p := newStore(t, newDatabase(t))
	ask.Granted(t, p, ask.Request("r", "a"))
	row := func() (version string) {
		if err := p.near.QueryRow(t.Context(), "SELECT xmin::text || ' ' || xmax::text || ' ' || ctid::text FROM "+p.name+".locks").Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	before := row()
	for i := range 5 {
		_ = ask.Refused(t, p, ask.Request("r", fmt.Sprint(i)))
		_ = ask.Refused(t, p, ask.Shared(ask.Request("r", fmt.Sprint(i)), i))
	}
	if after := row(); after != before {
		t.Errorf("the row was version %s and is %s", before, after)
	}
}

// What changes stays in its page and leaves the index alone.
func TestUpdatesAreHeapOnly(t *testing.T) {
	d := newDatabase(t)
	pool := d.pool(t)
	p := openPlace(t, d, schema(), pool)
	for range 200 {
		release(t, p, true, ask.Granted(t, p, ask.Request("r", "a")))
	}
	pool.Reset() // a session that ends says at once what it did
	var updates, hot int
	ask.Until(t, "the statistics are in", func() bool {
		if err := p.near.QueryRow(t.Context(), "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE schemaname = $1 AND relname = 'locks'",
			p.name).Scan(&updates, &hot); err != nil {
			t.Fatal(err)
		}
		return updates >= 400
	})
	if hot < updates*9/10 {
		t.Errorf("%d of %d updates", hot, updates)
	}
}

// A pool that was told not to prepare does not, and one behind a proxy does not
// either: see TestConformanceBehindPgBouncer.
func TestPreparesAsThePool(t *testing.T) {
	d := newDatabase(t)
	for mode, prepares := range map[pgx.QueryExecMode]bool{
		pgx.QueryExecModeCacheStatement: true, pgx.QueryExecModeExec: false, pgx.QueryExecModeCacheDescribe: false, pgx.QueryExecModeSimpleProtocol: false,
	} {
		var sent statements
		p := openPlace(t, d, schema(), d.pool(t, traced(&sent), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode }))
		got := sent.of(func() { release(t, p, true, ask.Granted(t, p, ask.Request("r", "a"))) })
		if strings.Contains(strings.Join(got, "\n"), "prepare ") != prepares {
			t.Errorf("%v: sent %q", mode, got)
		}
	}
}
