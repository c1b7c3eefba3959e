package pglock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// tracer counts the queries that pgx sends for a pool and for what is made from its
// configuration.
type tracer struct{ sent atomic.Int64 }

func (c *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if data.SQL != "-- ping" { // a connection that was idle for long is tried
		c.sent.Add(1)
	}
	return ctx
}

func (c *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// 10,000 holds, as many lists and sweeps see, kept alive by 20 statements.
func TestManyHolds(t *testing.T) {
	const n = 10_000
	var queries tracer
	d := newDatabase(t)
	p := openPlace(t, d, schema(), d.pool(t, func(c *pgxpool.Config) { c.ConnConfig.Tracer = &queries }))
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
	queries.sent.Store(0)
	rs, err := p.Renew(t.Context(), qs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rs {
		if r.Err != nil || r.Left < time.Hour {
			t.Fatalf("renewal %d: %+v", i, r)
		}
	}
	t.Logf("renewed in %v", time.Since(began))
	if sent := queries.sent.Load(); sent != n/500 {
		t.Errorf("%d statements", sent)
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
