// Package pgfence tests pglock/fence on a server.
package pgfence

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/pglock/fence"
	"github.com/holdfast-go/holdfast/tests/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows is a table with one row, in a database of its own, whose names have to be
// quoted.
func rows(t *testing.T, seen any) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), engines.PostgresDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	for _, sql := range []string{
		`CREATE SCHEMA "The Schema"`,
		`CREATE TABLE "The Schema"."ta""ble" (id text, part int, "N" bigint, note text, fence bigint, PRIMARY KEY (id, part))`,
		`INSERT INTO "The Schema"."ta""ble" VALUES ('one', 1, 1, 'as it was'), ('one', 2, 1, 'another')`,
	} {
		if _, err := pool.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := pool.Exec(t.Context(), `UPDATE "The Schema"."ta""ble" SET fence = $1 WHERE part = 1`, seen); err != nil {
		t.Fatal(err)
	}
	return pool
}

func one(db fence.DB) fence.Row {
	return fence.Row{DB: db, Table: pgx.Identifier{"The Schema", `ta"ble`}, Key: map[string]any{"part": 1, "id": "one"}}
}

type content struct {
	n    int64
	note *string
	seen *int64
}

func read(t *testing.T, pool *pgxpool.Pool) (c content) {
	t.Helper()
	err := pool.QueryRow(t.Context(), `SELECT "N", note, fence FROM "The Schema"."ta""ble" WHERE part = 1`).Scan(&c.n, &c.note, &c.seen)
	if err != nil {
		t.Fatal(err)
	}
	var others int
	err = pool.QueryRow(t.Context(), `SELECT count(*) FROM "The Schema"."ta""ble" WHERE part <> 1 AND note = 'another' AND fence IS NULL`).Scan(&others)
	if err != nil || others != 1 {
		t.Errorf("the other row was changed (error %v)", err)
	}
	return c
}

func TestUpdate(t *testing.T) {
	for name, c := range map[string]struct {
		seen  any
		set   map[string]any
		token uint64
		want  error
		n     int64
		after int64 // 0: null
	}{
		"the first":         {nil, map[string]any{"N": 2, "note": nil}, 5, nil, 2, 5},
		"larger":            {4, map[string]any{"N": 2}, 5, nil, 2, 5},
		"equal":             {5, map[string]any{"N": 2}, 5, nil, 2, 5},
		"smaller":           {6, map[string]any{"N": 2}, 5, holdfast.ErrStale, 1, 6},
		"the largest":       {driver.MaxToken - 1, map[string]any{"N": 2}, driver.MaxToken, nil, 2, driver.MaxToken},
		"nothing":           {4, nil, 5, nil, 1, 5},
		"no token":          {nil, map[string]any{"N": 2}, 0, holdfast.ErrInvalid, 1, 0},
		"no token at all":   {nil, map[string]any{"N": 2}, driver.MaxToken + 1, holdfast.ErrInvalid, 1, 0},
		"the token's field": {nil, map[string]any{"fence": 9}, 5, holdfast.ErrInvalid, 1, 0},
		"no column":         {nil, map[string]any{"": 9}, 5, holdfast.ErrInvalid, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			pool := rows(t, c.seen)
			db := stdlib.OpenDBFromPool(pool)
			defer db.Close()
			for _, through := range []fence.DB{pool, fence.Std(db)} { // a repeat is the same again
				if err := one(through).Update(t.Context(), c.set, c.token); !errors.Is(err, c.want) {
					t.Fatalf("error %v, want %v", err, c.want)
				}
			}
			got := read(t, pool)
			if got.n != c.n || (got.seen == nil) != (c.after == 0) || got.seen != nil && *got.seen != c.after {
				t.Errorf("the row is %+v; want N %d, fence %d", got, c.n, c.after)
			}
			if _, null := c.set["note"]; null != (got.note == nil) {
				t.Errorf("the note is %v", got.note)
			}
		})
	}
}

func TestInvalid(t *testing.T) {
	pool := rows(t, nil)
	for name, spoil := range map[string]func(*fence.Row){
		"no DB":              func(r *fence.Row) { r.DB = nil },
		"no table":           func(r *fence.Row) { r.Table = nil },
		"an empty table":     func(r *fence.Row) { r.Table = pgx.Identifier{""} },
		"no key":             func(r *fence.Row) { r.Key = nil },
		"a key of nil":       func(r *fence.Row) { r.Key = map[string]any{"id": nil} },
		"a key of no name":   func(r *fence.Row) { r.Key = map[string]any{"": 1} },
		"a key by the token": func(r *fence.Row) { r.Key = map[string]any{"fence": 1} },
	} {
		r := one(pool)
		spoil(&r)
		if err := r.Claim(t.Context(), 5); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	r := one(pool)
	r.Key = map[string]any{"id": "two", "part": 1}
	if err := r.Claim(t.Context(), 5); !errors.Is(err, fence.ErrNotFound) {
		t.Errorf("no row: error %v", err)
	}
	r.Key = map[string]any{"id": "one", `part" = 1 OR "part`: 2}
	if err := r.Claim(t.Context(), 5); err == nil || errors.Is(err, fence.ErrNotFound) || errors.Is(err, holdfast.ErrStale) {
		t.Errorf("no such column: error %v", err)
	}
	r.Key = map[string]any{"id": "one"}
	if err := r.Claim(t.Context(), 5); err == nil {
		t.Error("a key that chooses two rows was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := one(pool).Claim(ctx, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("with a dead ctx: error %v", err)
	}
}

// Writes that arrive in any order leave the largest token and what came with it.
func TestS10_outOfOrder(t *testing.T) {
	pool := rows(t, nil)
	const writers = 100
	tokens := rand.Perm(writers)
	var all sync.WaitGroup
	for part := range 4 {
		all.Go(func() {
			for i := part; i < writers; i += 4 {
				token := uint64(tokens[i] + 1)
				err := one(pool).Update(t.Context(), map[string]any{"N": int64(token)}, token)
				if err != nil && !errors.Is(err, holdfast.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := read(t, pool); got.n != writers || got.seen == nil || *got.seen != writers {
		t.Errorf("the row is %+v", got)
	}
}

// A claim in a transaction keeps later holders out until it ends, and a refusal
// leaves the transaction as it was.
func TestClaimInTransaction(t *testing.T) {
	pool := rows(t, nil)
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := one(fence.Std(tx)).Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	later := make(chan error, 1)
	go func() { later <- one(pool).Claim(t.Context(), 6) }()
	if _, err := tx.ExecContext(t.Context(), `UPDATE "The Schema"."ta""ble" SET "N" = 2 WHERE part = 1`); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-later:
		t.Errorf("a later holder came in between, error %v", err)
	default:
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-later; err != nil {
		t.Fatal(err)
	}
	if got := read(t, pool); got.n != 2 || *got.seen != 6 {
		t.Errorf("the row is %+v", got)
	}
	err = pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		if err := one(tx).Claim(t.Context(), 5); !errors.Is(err, holdfast.ErrStale) {
			t.Errorf("a stale claim: error %v", err)
		}
		_, err := tx.Exec(t.Context(), "SELECT 1")
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// The holder that was stopped past its TTL writes too late.
func TestS2_stopped(t *testing.T) {
	pool := rows(t, nil)
	store := pglock.New(pool, nil)
	defer store.Close()
	client := holdfast.New(store, nil)
	defer client.Close()
	lock := func() *holdfast.Hold {
		h, err := client.TryLock(t.Context(), "one", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := one(pool).Claim(h.Context(), h.Token()); err != nil {
			t.Fatal(err)
		}
		return h
	}
	stopped := lock()
	if _, err := client.ForceRelease(t.Context(), "one", stopped.ID()); err != nil {
		t.Fatal(err)
	}
	successor := lock()
	if err := one(pool).Update(t.Context(), map[string]any{"N": 666}, stopped.Token()); !errors.Is(err, holdfast.ErrStale) {
		t.Errorf("a write that came too late: error %v", err)
	}
	if err := one(pool).Update(t.Context(), map[string]any{"N": 2}, successor.Token()); err != nil {
		t.Error(err)
	}
	if got := read(t, pool); got.n != 2 {
		t.Errorf("the row is %+v", got)
	}
}
