package pglock_test

import (
	_ "embed"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

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
	name := installOld(t, d)
	old := oldProgram{&place{database: d, name: name}}
	q := ask.Request("r", "a")
	if n := old.acquire(t, q); n != 1 {
		t.Fatalf("outcome %d", n)
	}
	dump := begin(t, d.pool(t), pgx.TxOptions{})
	if _, err := dump.Exec(t.Context(), "LOCK TABLE "+name+".locks IN ACCESS SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	s := pglock.New(d.pool(t), &pglock.Options{Schema: name})
	defer closeStore(t, s)
	done := make(chan error, 1)
	go func() { done <- s.Init(t.Context()) }()
	for range 2 {
		ask.Until(t, "it waits for the dump", func() bool { return d.waiting(t) > 0 })
		// Behind it there is a queue, for a second at most.
		began := time.Now()
		if n := old.call(t, "SELECT outcome FROM SCHEMA.renew($1, $2, $3, $4, $5, $6, false)",
			[]string{"r"}, []string{"a"}, []string{q.HoldID.String()}, []int64{0}, []int64{3600_000}, []bool{false}); n != 1 {
			t.Errorf("outcome %d of a renewal", n)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("a renewal took %v", took)
		}
	}
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
