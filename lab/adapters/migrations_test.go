//go:build unix

package adapters_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	_ "modernc.org/sqlite"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/lab/engines"
)

var _ lock.Locker = (*adapt.Migrations)(nil)

// database opens the database that a URL names.
func database(url string) (*sql.DB, goose.Dialect, error) {
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(10000)")
		return db, goose.DialectSQLite3, err
	}
	db, err := sql.Open("pgx", url)
	return db, goose.DialectPostgres, err
}

func gooseUp(ctx context.Context, w *worker) error {
	db, dialect, err := database(w.Data)
	if err != nil {
		return err
	}
	defer db.Close()
	m := adapt.NewMigrations(w.client, "migrations", nil)
	long := goose.NewGoMigration(1, &goose.GoFunc{RunDB: func(ctx context.Context, _ *sql.DB) error { return w.work(ctx) }}, nil)
	p, err := goose.NewProvider(dialect, db, nil, goose.WithGoMigrations(long), goose.WithLocker(m))
	if err != nil {
		return err
	}
	up := func(ctx context.Context) error {
		_, err := p.Up(ctx)
		return err
	}
	for err == nil || errors.Is(err, holdfast.ErrLost) {
		err = m.Migrate(ctx, up)
	}
	return err
}

// provider returns migrations of a new PostgreSQL database, which is also the store.
func provider(t *testing.T, statement string) (*goose.Provider, *adapt.Migrations, *holdfast.Client, *sql.DB) {
	t.Helper()
	url := engines.PostgresDatabase(t)
	db, dialect, err := database(url)
	wantError(t, err, nil)
	t.Cleanup(func() { _ = db.Close() })
	m := adapt.NewMigrations(open(t, url), "migrations", nil)
	files := fstest.MapFS{"1_slow.sql": {Data: []byte("-- +goose Up\n" + statement + ";\n")}}
	p, err := goose.NewProvider(dialect, db, files, goose.WithLocker(m))
	wantError(t, err, nil)
	return p, m, open(t, url), db
}

// untilSleeping waits until a connection to the database runs pg_sleep.
func untilSleeping(t *testing.T, db *sql.DB) {
	t.Helper()
	for n := 0; n == 0; {
		err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()").Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A migration that loses its lock is cancelled in the server, rolled back and not recorded.
func TestGooseLosesItsLock(t *testing.T) {
	p, m, operator, db := provider(t, "CREATE TABLE a (n int); SELECT pg_sleep(600)")
	ended := make(chan error, 1)
	go func() {
		ended <- m.Migrate(t.Context(), func(ctx context.Context) error {
			_, err := p.Up(ctx)
			return err
		})
	}()
	untilSleeping(t, db)
	seize(t.Context(), t, operator, "migrations")
	wantError(t, <-ended, holdfast.ErrForced)
	if version, err := p.GetDBVersion(t.Context()); version != 0 || err != nil {
		t.Errorf("version %d, error %v", version, err)
	}
	var tables int
	wantError(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_tables WHERE tablename = 'a'").Scan(&tables), nil)
	if tables != 0 {
		t.Error("half of the migration is there")
	}
}

// Outside of Migrate, nothing stops a migration whose lock is lost. Its Up returns the loss.
func TestGooseOutsideOfMigrate(t *testing.T) {
	p, _, operator, db := provider(t, "SELECT pg_sleep(2.5)") // longer than until the next renewal
	ended := make(chan error, 1)
	go func() {
		_, err := p.Up(t.Context())
		ended <- err
	}()
	untilSleeping(t, db)
	seize(t.Context(), t, operator, "migrations")
	wantError(t, <-ended, holdfast.ErrForced)
	if version, err := p.GetDBVersion(t.Context()); version != 1 || err != nil {
		t.Errorf("version %d, error %v", version, err)
	}
}

// Two calls of Up of one Provider at once: goose lets the second one in before the first has
// unlocked.
func TestGooseAtOnce(t *testing.T) {
	p, _, _, _ := provider(t, "SELECT 1")
	ended := make(chan error, 4)
	for range cap(ended) {
		go func() {
			_, err := p.Up(t.Context())
			ended <- err
		}()
	}
	for range cap(ended) {
		wantError(t, <-ended, nil)
	}
}
