package engines_test

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/internal/thorough"
)

func postgresAt(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) }) // it may be cut
	return conn
}

func do(t *testing.T, conn *pgx.Conn, statement string, arguments ...any) {
	t.Helper()
	if _, err := conn.Exec(t.Context(), statement, arguments...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// value is what a query of one value returns.
func value[T any](t *testing.T, conn *pgx.Conn, query string, arguments ...any) (v T) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), query, arguments...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

func hasCode(err error, code string) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == code
}

func TestDatabaseIsDroppedWithTheTest(t *testing.T) {
	var url string
	t.Run("inner", func(t *testing.T) {
		url = engines.PostgresDatabase(t)
		conn, err := pgx.Connect(t.Context(), url) // and left open
		if err != nil {
			t.Fatal(err)
		}
		do(t, conn, "CREATE TABLE locks (resource text PRIMARY KEY)")
	})
	if _, err := pgx.Connect(t.Context(), url); !hasCode(err, "3D000") {
		t.Errorf("connecting to the database after the test: %v", err)
	}
}

func TestPostgresRestart(t *testing.T) {
	thorough.Test(t, "starts a server three times")
	s := engines.NewPostgres(t, "max_connections=17")
	before := s.URL
	conn := postgresAt(t, s.URL)
	if got := value[string](t, conn, "SHOW max_connections"); got != "17" {
		t.Errorf("max_connections is %s, want 17", got)
	}
	if got := value[string](t, conn, "SHOW fsync"); got != "on" {
		t.Errorf("fsync is %s, want on", got)
	}
	do(t, conn, "CREATE TABLE locks (resource text PRIMARY KEY)")
	do(t, conn, "INSERT INTO locks VALUES ($1)", "r")
	s.Stop()
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a server that was stopped still answers")
	}
	s.Restart(t)
	if s.URL != before {
		t.Errorf("restarted at %s, was at %s", s.URL, before)
	}
	conn = postgresAt(t, s.URL)
	if n := value[int](t, conn, "SELECT count(*) FROM locks"); n != 1 {
		t.Errorf("%d rows after the restart, want 1", n)
	}
	if got := value[string](t, conn, "SHOW max_connections"); got != "17" {
		t.Errorf("max_connections is %s after the restart, want 17", got)
	}
}

func TestPasswords(t *testing.T) {
	s := engines.NewPostgres(t)
	const password = `it's "$$`
	url := s.Role(t, "Some one", password)
	if got := value[string](t, postgresAt(t, url), "SELECT current_user"); got != "Some one" {
		t.Errorf("connected as %q", got)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	config.Password = "wrong"
	if _, err := pgx.ConnectConfig(t.Context(), config); !hasCode(err, "28P01") {
		t.Errorf("with a wrong password: %v", err)
	}
	// PgBouncer is told the password, and its clients need none.
	if got := value[string](t, postgresAt(t, engines.PgBouncer(t, url)), "SELECT current_user"); got != "Some one" {
		t.Errorf("connected through PgBouncer as %q", got)
	}
}

// Two clients share the one session, in turns: what one sets, the other one has.
func TestPgBouncerPoolsTransactions(t *testing.T) {
	url := engines.PgBouncer(t, engines.PostgresDatabase(t)) + "&default_query_exec_mode=simple_protocol"
	a, b := postgresAt(t, url), postgresAt(t, url)
	const session = "SELECT pg_backend_pid()"
	if one, other := value[int](t, a, session), value[int](t, b, session); one != other {
		t.Errorf("two clients that take turns have the sessions %d and %d", one, other)
	}
	do(t, a, "PREPARE mine AS SELECT 1")
	do(t, b, "EXECUTE mine")

	// In a transaction it is one's own.
	do(t, a, "BEGIN")
	if one, other := value[int](t, a, session), value[int](t, b, session); one == other {
		t.Errorf("two clients in session %d, one of them in a transaction", one)
	}
	do(t, a, "COMMIT")
}

// Prepared statements, as clients of PostgreSQL use them, are not known here.
func TestPgBouncerKnowsNoPreparedStatements(t *testing.T) {
	url := engines.PgBouncer(t, engines.PostgresDatabase(t))
	a, b := postgresAt(t, url), postgresAt(t, url)
	do(t, b, "BEGIN") // keeps the session in which it prepares
	if _, err := b.Prepare(t.Context(), "mine", "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	do(t, b, "COMMIT")
	if _, err := a.Prepare(t.Context(), "mine", "SELECT 2"); !hasCode(err, "42P05") {
		t.Errorf("another client's statement of that name: %v, want one that exists", err)
	}
}
