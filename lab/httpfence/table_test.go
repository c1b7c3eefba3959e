package httpfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver
	_ "modernc.org/sqlite"             // registers the driver

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/fencetest"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/lab/engines"
)

// database is a kind of database for a Table, with ways to damage the table.
type database struct {
	open    func(t *testing.T) *sql.DB
	damages map[string]string
	losses  map[string]string
}

func open(t *testing.T, driver, url string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func sqliteAt(t *testing.T, path string) *sql.DB {
	pragmas := url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)"}, "_txlock": {"immediate"}}
	return open(t, "sqlite", "file:"+path+"?"+pragmas.Encode())
}

var databases = map[string]database{
	"SQLite": {
		open: func(t *testing.T) *sql.DB { return sqliteAt(t, filepath.Join(t.TempDir(), "fences.db")) },
		damages: map[string]string{
			"a text":       `'five'`,
			"a number":     `3.5`,
			"a blob":       `x'05'`,
			"zero":         `0`,
			"negative":     `-1`,
			"beyond all":   `9007199254740992`,
			"the very end": `9223372036854775807`,
		},
		losses: map[string]string{
			"a trigger ignores it": `CREATE TRIGGER keep BEFORE UPDATE ON holdfast_fences BEGIN SELECT RAISE(IGNORE); END`,
			"a trigger undoes it": `CREATE TRIGGER keep AFTER UPDATE ON holdfast_fences
				BEGIN UPDATE holdfast_fences SET fence = OLD.fence WHERE resource = OLD.resource; END`,
			"no column": `ALTER TABLE holdfast_fences RENAME COLUMN fence TO token`,
			"no table":  `DROP TABLE holdfast_fences`,
		},
	},
	"PostgreSQL": {
		open: func(t *testing.T) *sql.DB { return open(t, "pgx", engines.PostgresDatabase(t)) },
		damages: map[string]string{
			"zero":       `0`,
			"negative":   `-1`,
			"beyond all": `9007199254740992`,
		},
		losses: map[string]string{
			"a trigger keeps the old one": `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.fence := OLD.fence; RETURN NEW; END';
				CREATE TRIGGER keep BEFORE UPDATE ON holdfast_fences FOR EACH ROW EXECUTE FUNCTION keep()`,
			"a trigger skips the row": `CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
				CREATE TRIGGER keep BEFORE UPDATE ON holdfast_fences FOR EACH ROW EXECUTE FUNCTION keep()`,
			"no column": `ALTER TABLE holdfast_fences RENAME COLUMN fence TO token`,
			"no key":    `ALTER TABLE holdfast_fences DROP CONSTRAINT holdfast_fences_pkey`,
			"a text":    `ALTER TABLE holdfast_fences ALTER COLUMN fence TYPE text`,
			"a real":    `ALTER TABLE holdfast_fences ALTER COLUMN fence TYPE real`,
		},
	},
}

// each runs a test for each kind of database, with an empty table.
func each(t *testing.T, run func(t *testing.T, d database, open func(t *testing.T) (*sql.DB, *httpfence.Table))) {
	for name, d := range databases {
		t.Run(name, func(t *testing.T) {
			run(t, d, func(t *testing.T) (*sql.DB, *httpfence.Table) {
				t.Helper()
				db := d.open(t)
				table := &httpfence.Table{DB: db}
				for range 2 { // the second call finds the table
					if err := table.Create(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				return db, table
			})
		})
	}
}

func TestFence(t *testing.T) {
	each(t, func(t *testing.T, d database, open func(t *testing.T) (*sql.DB, *httpfence.Table)) {
		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
			db, table := open(t)
			a := &account{value: 1}
			s := &spy{Newest: table}
			server := service(t, a, s, trusting)
			h := &fencetest.Harness{
				Claim: func(ctx context.Context, token uint64) error { return send(ctx, server, s, "", token) },
				Write: func(ctx context.Context, value int64, token uint64) error {
					return send(ctx, server, s, fmt.Sprint(value), token)
				},
				Value: func(*testing.T) int64 { return a.get() },
				Seen: func(t *testing.T) uint64 {
					seen, err := table.Load(t.Context(), resource)
					if err != nil {
						t.Error(err)
					}
					return seen
				},
				Damages: make(map[string]func(*testing.T)),
				Losses:  make(map[string]func(*testing.T)),
			}
			for name, value := range d.damages {
				h.Damages[name] = func(t *testing.T) {
					exec(t, db, `INSERT INTO holdfast_fences VALUES ($1, `+value+`)`, resource)
				}
			}
			for name, statement := range d.losses {
				h.Losses[name] = func(t *testing.T) {
					for part := range strings.SplitSeq(statement, ";\n") {
						exec(t, db, part)
					}
				}
			}
			return h
		})
	})
}

// Names are data: any name has a row of its own.
func TestNames(t *testing.T) {
	each(t, func(t *testing.T, _ database, open func(t *testing.T) (*sql.DB, *httpfence.Table)) {
		_, table := open(t)
		names := []string{
			"a", "A", "a ", " a", "á", "a\u0301", "'", `"`, "'); DROP TABLE holdfast_fences; --", "$1", "?", "%", "_", "\n", "🔒",
			strings.Repeat("a", driver.MaxName), strings.Repeat("a", driver.MaxName-1),
		}
		for i, name := range names {
			if err := table.Raise(t.Context(), name, uint64(i+1)); err != nil {
				t.Errorf("%q: %v", name, err)
			}
		}
		for i, name := range names {
			if token, err := table.Load(t.Context(), name); token != uint64(i+1) || err != nil {
				t.Errorf("%q: token %d, error %v, want %d", name, token, err, i+1)
			}
		}
		if token, err := table.Load(t.Context(), "none"); token != 0 || err != nil {
			t.Errorf("token %d, error %v", token, err)
		}
		for _, name := range []string{"", "a\x00", "\xff", strings.Repeat("a", driver.MaxName+1)} {
			if err := table.Raise(t.Context(), name, 1); !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%q: error %v", name, err)
			}
		}
	})
}

// Several instances of the service raise a token at once, also the first token of all.
func TestRaise(t *testing.T) {
	each(t, func(t *testing.T, _ database, open func(t *testing.T) (*sql.DB, *httpfence.Table)) {
		_, table := open(t)
		const instances, tokens = 4, 20
		var all sync.WaitGroup
		for range instances {
			all.Go(func() {
				for token := uint64(1); token <= tokens; token++ {
					err := table.Raise(t.Context(), resource, token)
					if err != nil && !errors.Is(err, holdfast.ErrStale) {
						t.Error(err)
					}
					if seen, err := table.Load(t.Context(), resource); seen < token || err != nil {
						t.Errorf("token %d, error %v, after %d was raised", seen, err, token)
					}
				}
			})
		}
		all.Wait()
		if seen, err := table.Load(t.Context(), resource); seen != tokens || err != nil {
			t.Errorf("token %d, error %v", seen, err)
		}
		if err := table.Raise(t.Context(), resource, tokens); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := table.Raise(t.Context(), resource, tokens-1); !errors.Is(err, holdfast.ErrStale) {
			t.Errorf("an older one: error %v", err)
		}
	})
}

// Under a stricter isolation level PostgreSQL does not serialize the statements: they fail and
// are repeated.
func TestIsolation(t *testing.T) {
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run(level, func(t *testing.T) {
			at, err := url.Parse(engines.PostgresDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			settings := at.Query()
			settings.Set("default_transaction_isolation", level)
			at.RawQuery = strings.ReplaceAll(settings.Encode(), "+", "%20")
			db := open(t, "pgx", at.String())
			var set string
			if err := db.QueryRowContext(t.Context(), "SHOW transaction_isolation").Scan(&set); err != nil || set != level {
				t.Fatalf("the isolation is %q, error %v", set, err)
			}
			table := &httpfence.Table{DB: db}
			if err := table.Create(t.Context()); err != nil {
				t.Fatal(err)
			}
			for token := uint64(1); token <= 20; token++ {
				var burst sync.WaitGroup
				for range 8 {
					burst.Go(func() {
						if err := table.Raise(t.Context(), resource, token); err != nil {
							t.Error(err)
						}
					})
				}
				burst.Wait()
			}
		})
	}
}

// A token that one instance of the service has seen counts in the other instances too.
func TestInstances(t *testing.T) {
	each(t, func(t *testing.T, _ database, open func(t *testing.T) (*sql.DB, *httpfence.Table)) {
		_, table := open(t)
		s := &spy{Newest: table}
		a := &account{}
		one, other := service(t, a, s, trusting), service(t, a, s, trusting)
		if err := send(t.Context(), one, s, "1", 5); err != nil {
			t.Error(err)
		}
		if err := send(t.Context(), other, s, "2", 6); err != nil {
			t.Error(err)
		}
		if err := send(t.Context(), one, s, "666", 5); !errors.Is(err, holdfast.ErrStale) || a.get() != 2 {
			t.Errorf("error %v, value %d", err, a.get())
		}
	})
}
