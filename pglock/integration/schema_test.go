package pglock_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/pglock"
)

// role makes a role that may connect, and is dropped with the test; the database is
// the one that it may connect to.
func (d *database) role(t *testing.T) (name string, as *database) {
	t.Helper()
	name = engines.Name()
	run(t, d.near, "CREATE ROLE "+name+" LOGIN")
	t.Cleanup(func() { postgresRun(t, d.url, "DROP OWNED BY "+name, "DROP ROLE "+name) })
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(name)
	return name, inDatabase(t, u.String())
}

// mustBeUnusable wants an error that says what to do.
func mustBeUnusable(t *testing.T, err error, says ...string) {
	t.Helper()
	if !errors.Is(err, driver.ErrUnusable) {
		t.Fatalf("error %v, want ErrUnusable", err)
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("error %v, want %q in it", err, s)
		}
	}
}

// A role without rights is told which it needs, step by step; with those that are
// documented all works.
func TestRights(t *testing.T) {
	d := newDatabase(t)
	role, as := d.role(t)
	name := schema()
	s := pglock.New(as.pool(t), &pglock.Options{Schema: name})
	defer closeStore(t, s)
	_, err := s.Acquire(t.Context(), ask.Request("r", "a"))
	mustBeUnusable(t, err, "holdfast schema 'postgres:///?schema="+name+"'")
	mustBeUnusable(t, s.Init(t.Context()), "holdfast schema 'postgres:///?schema="+name+"'", "GRANT USAGE ON SCHEMA")

	sql, err := pglock.Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // it may be run again
		run(t, d.near, sql, pgx.QueryExecModeSimpleProtocol)
	}
	mustBeUnusable(t, s.Init(t.Context()), "GRANT USAGE ON SCHEMA")
	run(t, d.near, "GRANT USAGE ON SCHEMA "+name+" TO "+role)
	mustBeUnusable(t, s.Init(t.Context()), "GRANT SELECT, INSERT, UPDATE, DELETE")
	run(t, d.near, "GRANT SELECT ON "+name+".locks TO "+role)
	mustBeUnusable(t, s.Init(t.Context()), "GRANT SELECT, INSERT, UPDATE, DELETE")
	_, err = s.Acquire(t.Context(), ask.Request("r", "a"))
	mustBeUnusable(t, err, "GRANT SELECT, INSERT, UPDATE, DELETE")
	run(t, d.near, "GRANT SELECT, INSERT, UPDATE, DELETE ON "+name+".locks TO "+role)
	if err := s.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	signals, err := s.Watch(t.Context(), "r")
	if err != nil {
		t.Fatal(err)
	}
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}})
	if err != nil || rs[0].Err != nil {
		t.Errorf("renew: %v %v", rs, err)
	}
	release(t, s, true, ref)
	ask.Woken(t, signals, "a release")
	if _, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil {
		t.Error(err)
	}
}

// A schema of another layout is refused, by Init and by the SQL of Schema, and stays
// as it is.
func TestOtherLayout(t *testing.T) {
	p := newStore(t, newDatabase(t))
	ref := ask.Granted(t, p, ask.Request("r", "a"))
	before := p.text(t, "r")
	sql, err := pglock.Schema(p.name)
	if err != nil {
		t.Fatal(err)
	}
	for layout, says := range map[string]string{
		"4": "made by an older version of Holdfast than this one, which needs 5: use another schema, or stop all programs that use this one and DROP SCHEMA",
		"6": "made by a newer version of Holdfast than this one, which has layout 5: update this program",
	} {
		p.exec(t, "COMMENT ON TABLE SCHEMA.locks IS 'Locks of Holdfast, layout "+layout+"'")
		mustBeUnusable(t, p.Init(t.Context()), "its layout is "+layout, says)
		if _, err := p.near.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err == nil || !strings.Contains(err.Error(), "of another layout") {
			t.Errorf("layout %s: the SQL of Schema: %v", layout, err)
		}
	}
	if after := p.text(t, "r"); after != before {
		t.Errorf("the row was %s and is %s", before, after)
	}
	p.exec(t, "COMMENT ON TABLE SCHEMA.locks IS 'Locks of Holdfast, layout 5'")
	if err := p.Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	release(t, p, true, ref)
}

// The SQL of Schema may be run again while a transaction, a dump perhaps, reads the
// table: it takes no lock of it, so that nobody queues behind it.
func TestSchemaAgainBesideDump(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	tx := begin(t, d.pool(t), pgx.TxOptions{})
	if _, err := tx.Exec(t.Context(), "LOCK TABLE "+p.name+".locks IN SHARE MODE"); err != nil {
		t.Fatal(err)
	}
	sql, err := pglock.Schema(p.name)
	if err != nil {
		t.Fatal(err)
	}
	run(t, d.near, sql, pgx.QueryExecModeSimpleProtocol)
}

// An installation that is left open delays others for a time, and that is all.
func TestInstallationLeftOpen(t *testing.T) {
	d := newDatabase(t)
	name := schema()
	sql, err := pglock.Schema(name)
	if err != nil {
		t.Fatal(err)
	}
	tx := begin(t, d.pool(t), pgx.TxOptions{})
	if _, err := tx.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	s := pglock.New(d.pool(t), &pglock.Options{Schema: name})
	defer closeStore(t, s)
	if err := s.Init(t.Context()); !errors.Is(err, pglock.ErrBusy) || strings.Contains(err.Error(), "the row") {
		t.Errorf("error %v", err)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Init(t.Context()); err != nil {
		t.Error(err)
	}
}

// Many make the schema at once.
func TestSchemaMadeAtOnce(t *testing.T) {
	d := newDatabase(t)
	for range 3 {
		name := schema()
		var all sync.WaitGroup
		for range 6 {
			s := pglock.New(d.pool(t, setting("default_transaction_isolation", "serializable")), &pglock.Options{Schema: name})
			defer closeStore(t, s)
			all.Go(func() {
				if err := s.Init(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
}

func TestSchemaOfOthers(t *testing.T) {
	d := newDatabase(t)
	for comment, says := range map[string]string{
		"'Locks of Holdfast, layout x'": "does not say that it is Holdfast's",
		"'Padlocks'":                    "does not say that it is Holdfast's",
		"NULL":                          "does not say that it is Holdfast's",
	} {
		p := newStore(t, d)
		p.exec(t, "COMMENT ON TABLE SCHEMA.locks IS "+comment)
		mustBeUnusable(t, p.Init(t.Context()), says)
	}
}

// What does not let anybody write, or has no room for all names, is no place for
// locks.
func TestUnfitServer(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	ref := ask.Granted(t, p, ask.Request("held", "a"))
	readOnly := pglock.New(d.pool(t, setting("default_transaction_read_only", "on")), &pglock.Options{Schema: p.name})
	defer closeStore(t, readOnly)
	faults.MustBeUnknown(t, readOnly.Init(t.Context()))
	_, err := readOnly.Acquire(t.Context(), ask.Request("r", "a"))
	faults.MustBeUnknown(t, err) // it may be over soon
	if !strings.Contains(err.Error(), "read-only") {
		t.Errorf("error %v", err)
	}
	release(t, p, true, ref)

	latin := engines.Name()
	run(t, d.near, "CREATE DATABASE "+latin+" ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'")
	t.Cleanup(func() { postgresRun(t, d.url, "DROP DATABASE "+latin+" WITH (FORCE)") })
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + latin
	s := pglock.New((&database{url: u.String()}).pool(t), nil)
	defer closeStore(t, s)
	mustBeUnusable(t, s.Init(t.Context()), "LATIN1", "UTF8")
}

// Two clients whose names the server converts from different encodings would lock two
// rows. The encoding may change while programs run.
func TestClientEncoding(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	ref := ask.Granted(t, p, ask.Request("Zürich", "a"))
	latin := pglock.New(d.pool(t, setting("client_encoding", "LATIN1")), &pglock.Options{Schema: p.name})
	defer closeStore(t, latin)
	mustBeUnusable(t, latin.Init(t.Context()), "client_encoding", "UTF8")
	_, err := latin.Acquire(t.Context(), ask.Request("Zürich", "b"))
	mustBeUnusable(t, err, "LATIN1", "UTF8")
	for _, err := range latin.List(t.Context(), driver.Filter{}) {
		mustBeUnusable(t, err, "LATIN1")
	}
	tx := begin(t, d.pool(t, setting("client_encoding", "LATIN1")), pgx.TxOptions{})
	_, err = p.AcquireTx(t.Context(), tx, ask.Request("Zürich", "b"))
	mustBeUnusable(t, err, "LATIN1")
	release(t, p, true, ref)
}

// A role that may create functions in a schema of the path, and has no right to the
// locks, decides about none, though its functions fit the types better than those of
// the server.
func TestFunctionsOfOthers(t *testing.T) {
	d := newDatabase(t)
	run(t, d.near, "GRANT CREATE ON SCHEMA public TO PUBLIC") // as it is before PostgreSQL 15
	p := newStore(t, d)
	_, other := p.role(t)
	for _, sql := range []string{
		"CREATE FUNCTION public.to_jsonb(jsonb[]) RETURNS jsonb LANGUAGE sql AS $$SELECT '[]'::jsonb$$",
		"CREATE FUNCTION public.array_position(text[], text) RETURNS int LANGUAGE sql AS 'SELECT NULL::int'",
		"CREATE FUNCTION public.jsonb_path_query_array(jsonb, text) RETURNS jsonb LANGUAGE sql AS $$SELECT '[]'::jsonb$$",
		"CREATE FUNCTION public.text_of(jsonb, jsonb) RETURNS text LANGUAGE sql AS $$SELECT 'x'$$",
		"CREATE OPERATOR public.->> (LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = public.text_of)",
		"CREATE FUNCTION public.obj_description(oid, text) RETURNS text LANGUAGE sql AS $$SELECT 'of others'$$",
		"CREATE FUNCTION public.hashtextextended(text, int) RETURNS bigint LANGUAGE sql AS 'SELECT 1 / 0'",
	} {
		run(t, other.near, sql)
	}
	s := openPlace(t, d, schema(), d.pool(t)) // which installs it
	mine := ask.Granted(t, s, ask.Request("r", "a"))
	shared := ask.Granted(t, s, ask.Shared(ask.Request("s", "a"), 1))
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: mine, TTL: time.Hour}, {HoldRef: shared, TTL: time.Hour}})
	if err != nil || rs[0].Err != nil || rs[1].Err != nil {
		t.Errorf("renewed %v, error %v", rs, err)
	}
	_ = ask.Refused(t, s, ask.Request("r", "b"))
	_ = ask.Refused(t, s, ask.Shared(ask.Request("s", "b"), 1))
	if _, err := s.Watch(t.Context(), "r"); err != nil {
		t.Error(err)
	}
	release(t, s, true, mine)
	release(t, s, true, shared)
}

// postgresRun runs statements over a connection of its own.
func postgresRun(t *testing.T, url string, statements ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Error(err)
		return
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Error(err)
		}
	}
}
