package pglock_test

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// layout1 is the SQL that installed the first layout.
//
//go:embed testdata/layout1.sql
var layout1 string

// installOld makes a schema of the first layout, as the program of then did.
func installOld(t *testing.T, d *database) (name string) {
	t.Helper()
	name = schema()
	run(t, d.near, strings.NewReplacer(
		"{schema}", pgx.Identifier{name}.Sanitize(), "{schema_text}", "'"+name+"'", "{channel}", "'holdfast_"+name+"'", "{layout}", "1",
	).Replace(layout1), pgx.QueryExecModeSimpleProtocol)
	return name
}

// oldProgram asks as a program of the first layout does, which is told of no new
// parameter.
type oldProgram struct{ *place }

const oldHold = `{"lockId": "%ID", "holdId": "%HOLD", "mode": "%MODE", "token": 0, "created": 0}`

func (o oldProgram) acquire(t *testing.T, q driver.AcquireRequest) (outcome int) {
	t.Helper()
	hold := strings.NewReplacer("%ID", q.LockID, "%HOLD", q.HoldID.String(), "%MODE", q.Mode.String()).Replace(oldHold)
	err := o.near.QueryRow(t.Context(), "SELECT outcome FROM "+o.name+".acquire($1, $2, $3, $4)",
		q.Resource, hold, q.Limit, q.TTL.Milliseconds()).Scan(&outcome)
	if err != nil {
		t.Fatal(err)
	}
	return outcome
}

func (o oldProgram) call(t *testing.T, sql string, args ...any) (outcome int) {
	t.Helper()
	if err := o.near.QueryRow(t.Context(), strings.ReplaceAll(sql, "SCHEMA", o.name), args...).Scan(&outcome); err != nil {
		t.Fatal(err)
	}
	return outcome
}

// A schema of the first layout is brought up to date with the holds that are in
// it. Programs that have it open go on, and exclude those of today, and are
// excluded.
func TestUpgrade(t *testing.T) {
	d := newDatabase(t)
	name := installOld(t, d)
	old := oldProgram{&place{database: d, name: name}}
	exclusive, shared := ask.Request("exclusive", "a"), ask.Shared(ask.Request("shared", "a"), 3)
	for _, q := range []driver.AcquireRequest{exclusive, shared, ask.Request("released", "a")} {
		if n := old.acquire(t, q); n != 1 {
			t.Fatalf("outcome %d", n)
		}
	}
	run(t, d.near, "UPDATE "+name+".locks SET holds = '[]', touched = 1, token = 1 WHERE resource = 'released'")

	p := openPlace(t, d, name, d.pool(t))
	old.place = p
	if held := ask.Refused(t, p, ask.Request("exclusive", "b")); len(held.Holders) != 1 || held.Holders[0].HoldID != exclusive.HoldID {
		t.Errorf("refusal %+v", held)
	}
	if st := p.held(t, "shared"); st.Limit != driver.LimitUnknown {
		t.Errorf("the limit of an old hold is %d", st.Limit)
	}
	// Whose limit is not known is beside any.
	three := ask.Shared(ask.Request("shared", "b"), 3)
	ask.Granted(t, p, three)
	if held := ask.Refused(t, p, ask.Shared(ask.Request("shared", "c"), 5)); !held.LimitDiffers {
		t.Errorf("refusal %+v", held)
	}
	if n := old.acquire(t, ask.Shared(ask.Request("shared", "d"), 3)); n != 1 {
		t.Errorf("outcome %d: an old program does not say which limit others must have", n)
	}
	if n := old.acquire(t, ask.Shared(ask.Request("shared", "e"), 3)); n != 0 {
		t.Errorf("outcome %d of a fourth", n)
	}
	if n := old.acquire(t, ask.Request("shared", "e")); n != 0 {
		t.Errorf("outcome %d", n)
	}
	ask.Granted(t, p, ask.Request("new", "b"))
	if n := old.acquire(t, ask.Request("new", "a")); n != 0 {
		t.Errorf("outcome %d", n)
	}
	if n := old.acquire(t, exclusive); n != 1 {
		t.Errorf("outcome %d of a repeat", n)
	}
	ids := []any{[]string{"exclusive"}, []string{"a"}, []string{exclusive.HoldID.String()}, []int64{0}}
	if n := old.call(t, "SELECT outcome FROM SCHEMA.renew($1, $2, $3, $4, $5, $6, false)", append(ids, []int64{7200_000}, []bool{false})...); n != 1 {
		t.Errorf("outcome %d of a renewal", n)
	}
	if left := p.held(t, "exclusive").Left; left <= time.Hour {
		t.Errorf("%v left", left)
	}
	if n := old.call(t, "SELECT outcome FROM SCHEMA.release($1, $2, $3, $4, $5, false)", append(ids, []int64{0})...); n != 1 {
		t.Errorf("outcome %d of a release", n)
	}
	ask.Granted(t, p, ask.Request("exclusive", "b"))
	// Either sweep finds what was idle before.
	if n := old.call(t, "SELECT deleted FROM SCHEMA.sweep($1, '', 100)", int64(time.Hour/time.Microsecond)); n != 1 {
		t.Errorf("%d deleted", n)
	}
	if r, err := p.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil || r.Records != 0 || r.Holds != 0 {
		t.Errorf("swept %+v, error %v", r, err)
	}
}

// What an old program left idle is found by the first sweep.
func TestUpgradeSweeps(t *testing.T) {
	d := newDatabase(t)
	name := installOld(t, d)
	run(t, d.near, "INSERT INTO "+name+".locks (resource) SELECT 'r' || n FROM generate_series(1, 100) n")
	p := openPlace(t, d, name, d.pool(t))
	if r, err := p.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil || r.Records != 100 {
		t.Errorf("swept %+v, error %v", r, err)
	}
}

// The table cannot be changed while somebody reads it, as a dump does for hours. Who
// wants to change it must not keep those away who hold locks, and gets on once the
// dump is over.
func TestUpgradeBesideDump(t *testing.T) {
	d := newDatabase(t)
	old, q := heldByOld(t, d)
	dump := old.dump(t)
	s := pglock.New(d.pool(t), &pglock.Options{Schema: old.name})
	defer closeStore(t, s)
	done := make(chan error, 1)
	go func() { done <- s.Init(t.Context()) }()
	ask.Until(t, "it waits for the dump", func() bool { return len(old.changers(t)) > 0 })
	old.renew(t, q)
	if err := dump.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if held := ask.Refused(t, s, ask.Request("r", "b")); len(held.Holders) != 1 {
		t.Errorf("refusal %+v", held)
	}
}

// While a dump goes on, programs that want to change the table queue for it one at a
// time, each time for less than the shortest TTL; and they end before a Client takes
// them for a store that does not answer, with an error that says what to do.
func TestUpgradeGivesUp(t *testing.T) {
	d := newDatabase(t)
	old, q := heldByOld(t, d)
	old.dump(t)
	const programs = 3
	done := make(chan error, programs)
	for range programs {
		s := pglock.New(d.pool(t), &pglock.Options{Schema: old.name})
		defer closeStore(t, s)
		client := holdfast.New(s, nil)
		defer client.Close()
		go func() {
			_, err := client.TryLock(t.Context(), "r", nil)
			done <- err
		}()
	}
	renewed := make(chan error, 1)
	var enough atomic.Bool
	go func() {
		var err error
		for err == nil && !enough.Load() {
			err = old.renews(t.Context(), q)
		}
		renewed <- err
	}()

	waits := map[time.Time]time.Duration{} // by their beginning, as long as they were seen
	for left := programs; left > 0; {
		changers := old.changers(t)
		if len(changers) > 1 {
			t.Errorf("%d programs queue for the table", len(changers))
		}
		for _, c := range changers {
			waits[c.began] = c.took
		}
		select {
		case err := <-done:
			left--
			if err == nil || !strings.Contains(err.Error(), "a dump perhaps, uses the table: start again when that has ended") ||
				strings.Contains(err.Error(), "not ready") {
				t.Errorf("error %v", err)
			}
		default:
		}
	}
	enough.Store(true)
	if err := <-renewed; err != nil {
		t.Errorf("renewal: %v", err)
	}
	// A machine that is busy may have any one of them end late.
	took := slices.Sorted(maps.Values(waits))
	if len(took) < 2 || took[len(took)/2] > holdfast.MinTTL {
		t.Errorf("they waited %v", took)
	}
}

// heldByOld is a schema of the first layout in which an old program holds what q asks
// for.
func heldByOld(t *testing.T, d *database) (old oldProgram, q driver.AcquireRequest) {
	t.Helper()
	old, q = oldProgram{&place{database: d, name: installOld(t, d)}}, ask.Request("r", "a")
	if n := old.acquire(t, q); n != 1 {
		t.Fatalf("outcome %d", n)
	}
	return old, q
}

// dump is a transaction that reads the table, as that of a dump does.
func (o oldProgram) dump(t *testing.T) pgx.Tx {
	t.Helper()
	dump := begin(t, o.pool(t), pgx.TxOptions{})
	if _, err := dump.Exec(t.Context(), "LOCK TABLE "+o.name+".locks IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	return dump
}

func (o oldProgram) renew(t *testing.T, q driver.AcquireRequest) {
	t.Helper()
	if err := o.renews(t.Context(), q); err != nil {
		t.Errorf("renewal: %v", err)
	}
}

func (o oldProgram) renews(ctx context.Context, q driver.AcquireRequest) error {
	var outcome int
	err := o.near.QueryRow(ctx, "SELECT outcome FROM "+o.name+".renew($1, $2, $3, $4, $5, $6, false)",
		[]string{q.Resource}, []string{q.LockID}, []string{q.HoldID.String()}, []int64{0}, []int64{3600_000}, []bool{false}).Scan(&outcome)
	if err == nil && outcome != 1 {
		err = fmt.Errorf("outcome %d", outcome)
	}
	return err
}

// changer is a session that waits to change the table.
type changer struct {
	began time.Time
	took  time.Duration // until now
}

func (o oldProgram) changers(t *testing.T) []changer {
	t.Helper()
	rows, err := o.near.Query(t.Context(), `SELECT waitstart, (extract(epoch FROM clock_timestamp() - waitstart) * 1e9)::bigint
		FROM pg_locks WHERE relation = $1::text::regclass AND mode = 'AccessExclusiveLock' AND NOT granted AND waitstart IS NOT NULL`, o.name+".locks")
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c changer, err error) {
		return c, row.Scan(&c.began, &c.took)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
