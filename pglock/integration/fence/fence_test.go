// Package fence_test tests pglock/fence on a server.
package fence_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/fencetest"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/pglock/fence"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rows is a table with one row, in a database of its own, whose names have to be
// quoted.
func rows(t *testing.T, seen any) *pgxpool.Pool {
	t.Helper()
	return rowsAt(t, engines.PostgresDatabase(t), seen)
}

func rowsAt(t *testing.T, url string, seen any) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), url)
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

// losses keep a token from being stored, though the row seems to be written.
var losses = map[string]string{
	"a trigger keeps the old one": `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.fence := OLD.fence; RETURN NEW; END';
		CREATE TRIGGER keep BEFORE UPDATE ON "The Schema"."ta""ble" FOR EACH ROW EXECUTE FUNCTION keep()`,
	"a trigger drops it": `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.fence := NULL; RETURN NEW; END';
		CREATE TRIGGER keep BEFORE UPDATE ON "The Schema"."ta""ble" FOR EACH ROW EXECUTE FUNCTION keep()`,
	"a trigger skips the row": `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER keep BEFORE UPDATE ON "The Schema"."ta""ble" FOR EACH ROW EXECUTE FUNCTION keep()`,
	"a rule does nothing": `CREATE RULE keep AS ON UPDATE TO "The Schema"."ta""ble" DO INSTEAD NOTHING`,
	"a text":              `ALTER TABLE "The Schema"."ta""ble" ALTER COLUMN fence TYPE text`,
	"no column":           `ALTER TABLE "The Schema"."ta""ble" DROP COLUMN fence`,
	"a view that omits it": `ALTER TABLE "The Schema"."ta""ble" RENAME TO base;
		CREATE VIEW "The Schema"."ta""ble" AS SELECT * FROM "The Schema".base;
		CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN UPDATE "The Schema".base SET "N" = NEW."N" WHERE part = NEW.part; RETURN NEW; END';
		CREATE TRIGGER keep INSTEAD OF UPDATE ON "The Schema"."ta""ble" FOR EACH ROW EXECUTE FUNCTION keep()`,
}

func harness(t *testing.T, through func(*pgxpool.Pool) fence.DB) *fencetest.Harness {
	pool := rows(t, nil)
	row := one(through(pool))
	h := &fencetest.Harness{
		Claim: row.Claim,
		Write: func(ctx context.Context, value int64, token uint64) error {
			return row.Update(ctx, map[string]any{"N": value}, token)
		},
		Put: func(ctx context.Context, value int64, token uint64) error {
			return row.Put(ctx, map[string]any{"N": value}, token)
		},
		Value: func(t *testing.T) int64 { return read(t, pool).n },
		Seen: func(t *testing.T) uint64 {
			if seen := read(t, pool).seen; seen != nil {
				return uint64(*seen)
			}
			return 0
		},
		NotFound: fence.ErrNotFound,
		Remove:   func(t *testing.T) { do(t, pool, `DELETE FROM "The Schema"."ta""ble" WHERE part = 1`) },
		Twin: func(t *testing.T) {
			do(t, pool, `ALTER TABLE "The Schema"."ta""ble" DROP CONSTRAINT "ta""ble_pkey"`)
			do(t, pool, `INSERT INTO "The Schema"."ta""ble" VALUES ('one', 1, 1)`)
		},
		Losses: make(map[string]func(*testing.T)),
	}
	for name, sql := range losses {
		h.Losses[name] = func(t *testing.T) { do(t, pool, sql) }
	}
	return h
}

func do(t *testing.T, pool *pgxpool.Pool, sql string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func TestFence(t *testing.T) {
	t.Run("pgx", func(t *testing.T) {
		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
			return harness(t, func(pool *pgxpool.Pool) fence.DB { return pool })
		})
	})
	t.Run("database/sql", func(t *testing.T) {
		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
			return harness(t, func(pool *pgxpool.Pool) fence.DB {
				db := stdlib.OpenDBFromPool(pool)
				t.Cleanup(func() { db.Close() })
				return fence.Std(db)
			})
		})
	})
	t.Run("simple protocol", func(t *testing.T) { // every argument is a text there
		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
			return harness(t, func(pool *pgxpool.Pool) fence.DB {
				config := pool.Config()
				config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
				simple, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(simple.Close)
				return simple
			})
		})
	})
}

// A column that has fewer digits than tokens, and one with more.
func TestOtherNumbers(t *testing.T) {
	const token = 1<<24 + 1
	for columnType, stores := range map[string]bool{"real": false, "double precision": true, "numeric": true, "numeric(20,2)": true} {
		pool := rows(t, 7)
		do(t, pool, `ALTER TABLE "The Schema"."ta""ble" ALTER COLUMN fence TYPE `+columnType)
		if err := one(pool).Claim(t.Context(), token); (err == nil) != stores {
			t.Errorf("%s: error %v", columnType, err)
		}
		if err := one(pool).Claim(t.Context(), token-1); stores && !errors.Is(err, holdfast.ErrStale) {
			t.Errorf("%s: error %v, want ErrStale", columnType, err)
		}
	}
}

// What keeps a row as it is is named: a claim that is repeated changes nothing.
func TestSuppressedUpdates(t *testing.T) {
	pool := rows(t, nil)
	do(t, pool, `CREATE TRIGGER same BEFORE UPDATE ON "The Schema"."ta""ble" FOR EACH ROW EXECUTE FUNCTION suppress_redundant_updates_trigger()`)
	if err := one(pool).Claim(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	err := one(pool).Claim(t.Context(), 5)
	if err == nil || errors.Is(err, holdfast.ErrStale) || !strings.Contains(err.Error(), "suppress_redundant_updates_trigger") {
		t.Errorf("error %v", err)
	}
	if err := one(pool).Claim(t.Context(), 6); err != nil {
		t.Error(err)
	}
}

// A row that a policy hides from an update is neither a reason to retry forever nor a
// stale token.
func TestRowSecurity(t *testing.T) {
	pool := rows(t, nil)
	role := engines.Name()
	do(t, pool, `CREATE ROLE `+role+` LOGIN; GRANT USAGE ON SCHEMA "The Schema" TO `+role+`;
		GRANT ALL ON "The Schema"."ta""ble" TO `+role+`; CREATE POLICY look ON "The Schema"."ta""ble" FOR SELECT USING (true);
		ALTER TABLE "The Schema"."ta""ble" ENABLE ROW LEVEL SECURITY`)
	t.Cleanup(func() {
		if _, err := pool.Exec(context.WithoutCancel(t.Context()), "DROP OWNED BY "+role+"; DROP ROLE "+role, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Error(err)
		}
	})
	config := pool.Config()
	config.ConnConfig.User = role
	theirs, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	err = one(theirs).Claim(t.Context(), 5)
	if err == nil || errors.Is(err, holdfast.ErrStale) || errors.Is(err, fence.ErrNotFound) || !strings.Contains(err.Error(), "row-level security") {
		t.Errorf("error %v", err)
	}
}

// A crash must not forget a token that was answered for, be the role content with
// less: the transaction of a claim waits for the disk.
func TestClaimIsDurable(t *testing.T) {
	pool := rows(t, nil)
	for _, c := range []struct{ before, after string }{{"off", "on"}, {"local", "local"}, {"remote_apply", "remote_apply"}} {
		for name, write := range map[string]func(fence.Row) error{
			"claim": func(r fence.Row) error { return r.Claim(t.Context(), 5) },
			"put":   func(r fence.Row) error { return r.Put(t.Context(), nil, 5) },
		} {
			err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				if _, err := tx.Exec(t.Context(), "SET LOCAL synchronous_commit = "+c.before); err != nil {
					return err
				}
				if err := write(one(tx)); err != nil {
					return err
				}
				var after string
				err := tx.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&after)
				if after != c.after {
					t.Errorf("%s: synchronous_commit was %s and is %s", name, c.before, after)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// A token that was registered, and answered for, is there after a crash.
func TestClaimSurvivesCrash(t *testing.T) {
	server := engines.NewPostgres(t, "synchronous_commit=off", "wal_writer_delay=10s", "bgwriter_delay=10s")
	pool := rowsAt(t, server.URL, 4)
	if err := one(pool).Claim(t.Context(), 6); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	server.Restart(t)
	pool.Reset()
	if err := one(pool).Update(t.Context(), map[string]any{"N": 666}, 5); !errors.Is(err, holdfast.ErrStale) {
		t.Errorf("a stale write after the crash: error %v", err)
	}
}

// Arguments that Put and Update set, and what they leave.
func TestSet(t *testing.T) {
	pool := rows(t, nil)
	if err := one(pool).Update(t.Context(), map[string]any{"N": 2, "note": nil}, 5); err != nil {
		t.Fatal(err)
	}
	if got := read(t, pool); got.n != 2 || got.note != nil {
		t.Errorf("the row is %+v", got)
	}
	if err := one(pool).Put(t.Context(), map[string]any{"note": "put"}, 5); err != nil {
		t.Fatal(err)
	}
	if got := read(t, pool); got.n != 2 || got.note == nil || *got.note != "put" {
		t.Errorf("the row is %+v", got)
	}
	for _, column := range []string{"fence", ""} {
		if err := one(pool).Update(t.Context(), map[string]any{column: 9}, 5); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("column %q: error %v", column, err)
		}
		if err := one(pool).Put(t.Context(), map[string]any{column: 9}, 5); !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("column %q: error %v", column, err)
		}
	}
	r := one(pool)
	r.Key = map[string]any{"id": "one"}
	if err := r.Put(t.Context(), map[string]any{"part": 3}, 5); err == nil || !strings.Contains(err.Error(), "unique constraint") {
		t.Errorf("a key that is not unique: error %v", err)
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
		"a nil pointer":      func(r *fence.Row) { r.Key = map[string]any{"id": (*string)(nil)} },
		"a nil pointer's":    func(r *fence.Row) { r.Key = map[string]any{"id": new(*string)} },
		"no bytes":           func(r *fence.Row) { r.Key = map[string]any{"id": []byte(nil)} },
		"sql's null":         func(r *fence.Row) { r.Key = map[string]any{"id": sql.NullString{}} },
		"pgx's null":         func(r *fence.Row) { r.Key = map[string]any{"id": &pgtype.Text{}} },
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
	r.Key = map[string]any{"id": "one", `part" = 1 OR "part`: 2}
	if err := r.Claim(t.Context(), 5); err == nil || errors.Is(err, fence.ErrNotFound) || errors.Is(err, holdfast.ErrStale) {
		t.Errorf("no such column: error %v", err)
	}
	r.Key = map[string]any{"id": "one"}
	if err := r.Claim(t.Context(), 5); err == nil || !strings.Contains(err.Error(), "several rows") {
		t.Errorf("a key that chooses two rows: error %v", err)
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
	if _, err := client.Admin().ForceRelease(t.Context(), "one", stopped.ID()); err != nil {
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
