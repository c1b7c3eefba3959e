package engines

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// PostgresPair is a primary with a synchronous standby, for one test: each commit is on both.
type PostgresPair struct {
	// Engine has the URL of both hosts, with target_session_attrs=read-write, so that programs
	// connect to the current primary.
	Engine
	// Primary and Standby are the current ones. After FailOver there is no standby until
	// Rejoin.
	Primary, Standby *PostgresServer
}

// NewPostgresPair starts both, and returns when the primary waits for the standby.
func NewPostgresPair(t testing.TB, settings ...string) *PostgresPair {
	t.Helper()
	// The primary keeps what the standby has not received yet.
	p := &PostgresPair{Primary: NewPostgres(t, append([]string{"wal_keep_size=256MB"}, settings...)...)}
	p.Standby = newStandby(t, p.Primary)
	p.await(t)
	p.Engine = postgresKind.engine(fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write",
		loopback(p.Primary.port(t)), loopback(p.Standby.port(t))))
	return p
}

// FailOver kills the primary, and returns when the standby has taken over, alone.
func (p *PostgresPair) FailOver(t testing.TB) {
	t.Helper()
	p.Primary.Stop()
	postgresDo(t, p.Standby.URL, "SELECT pg_promote(true, 60)")
	p.Primary, p.Standby = p.Standby, p.Primary
}

// Rejoin makes the killed server the standby of the other one. It returns when the standby is
// complete and commits wait for it again.
func (p *PostgresPair) Rejoin(t testing.TB) {
	t.Helper()
	port := p.Standby.port(t)
	if err := os.RemoveAll(filepath.Join(p.Standby.folder, "data")); err != nil {
		t.Fatal(err)
	}
	p.Standby.follow(t, p.Primary, port)
	p.await(t)
}

// Cut separates the standby from the primary until Restore: commits wait, and the standby
// receives nothing.
func (p *PostgresPair) Cut(t testing.TB) {
	t.Helper()
	p.setAccess(t, strings.Replace(postgresAccess, replicationAccess, "", 1))
	p.until(t, "the standby is cut off", `SELECT count(*) = 0 FROM (SELECT pg_terminate_backend(pid) FROM pg_stat_replication) AS cut`)
}

// Restore reconnects the standby, and returns when it has all changes.
func (p *PostgresPair) Restore(t testing.TB) {
	t.Helper()
	p.setAccess(t, postgresAccess)
	p.until(t, "the standby is back", standbyIsSynchronous)
}

const standbyIsSynchronous = `SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND replay_lsn >= pg_current_wal_lsn()`

// await makes commits wait for the standby from now on. Before the standby exists, they would
// wait forever.
func (p *PostgresPair) await(t testing.TB) {
	t.Helper()
	postgresDo(t, p.Primary.URL, "ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()")
	p.until(t, "the standby is synchronous", standbyIsSynchronous)
}

// setAccess sets who may connect to the primary.
func (p *PostgresPair) setAccess(t testing.TB, access string) {
	t.Helper()
	if err := writeUnprivileged(filepath.Join(p.Primary.folder, "access"), []byte(access)); err != nil {
		t.Fatal(err)
	}
	postgresDo(t, p.Primary.URL, "SELECT pg_reload_conf()")
}

// until repeats a query on the primary until it returns true.
func (p *PostgresPair) until(t testing.TB, what, question string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.Primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	err = poll(ctx, func() error {
		var is bool
		if err := conn.QueryRow(ctx, question).Scan(&is); err != nil || is {
			return err
		}
		return errors.New("not yet")
	})
	if err != nil {
		t.Fatalf("waited in vain until %s: %v", what, err)
	}
}

// newStandby starts a standby of a server.
func newStandby(t testing.TB, primary *PostgresServer) *PostgresServer {
	t.Helper()
	s := ownPostgres(t, primary.settings)
	s.follow(t, primary, 0)
	return s
}

// follow starts the server as a standby, with a copy of the primary's data.
func (s *PostgresServer) follow(t testing.TB, primary *PostgresServer, port int) {
	t.Helper()
	if err := primary.copyTo(context.WithoutCancel(t.Context()), filepath.Join(s.folder, "data")); err != nil {
		t.Fatal(err)
	}
	if err := writeUnprivileged(filepath.Join(s.folder, "access"), []byte(postgresAccess)); err != nil {
		t.Fatal(err)
	}
	s.begin(t, func(ctx context.Context, port int) (*process, error) {
		return startPostgres(ctx, s.folder, port, append([]string{
			fmt.Sprintf("primary_conninfo=host=127.0.0.1 port=%d user=postgres sslmode=disable", primary.port(t)), "wal_retrieve_retry_interval=100",
		}, s.settings...))
	}, port)
}

// copyTo copies a running server's data for a standby.
func (s *PostgresServer) copyTo(ctx context.Context, to string) error {
	conn, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "SELECT pg_backup_start('copy', true)"); err != nil {
		return err
	}
	if err := copyData(filepath.Join(s.folder, "data"), to); err != nil {
		return err
	}
	var label string
	if err := conn.QueryRow(ctx, "SELECT labelfile FROM pg_backup_stop(false)").Scan(&label); err != nil {
		return err
	}
	for name, content := range map[string]string{"backup_label": label, "standby.signal": "", "postgresql.auto.conf": ""} {
		if err := writeUnprivileged(filepath.Join(to, name), []byte(content)); err != nil {
			return err
		}
	}
	return nil
}

// copyData copies a data folder without the running server's own files and without its log,
// which the copy receives from the server. Files may vanish during the copy.
func copyData(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		if entry.IsDir() {
			return errors.Join(os.MkdirAll(target, 0o700), giveAway(target))
		}
		if strings.HasPrefix(name, "postmaster.") || strings.HasPrefix(name, "pg_wal"+string(filepath.Separator)) {
			return nil
		}
		source, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer source.Close()
		content, err := io.ReadAll(source)
		return errors.Join(err, writeUnprivileged(target, content))
	})
}
