package pglock_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/pglock"
)

// wire is a proxy that counts what clients send to a server.
type wire struct {
	mu       sync.Mutex
	opened   int // connections, those of cancel requests too
	trips    int // messages that the server answers, but for pings
	prepared int // statements with a name
}

// newWire returns the database as it is behind the wire.
func newWire(t *testing.T, d *database) (*wire, *database) {
	t.Helper()
	u, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, server := new(wire), u.Host
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { _ = l.Close() })
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			w.mu.Lock()
			w.opened++
			w.mu.Unlock()
			var dialer net.Dialer
			far, err := dialer.DialContext(t.Context(), "tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			all.Go(func() {
				_, _ = io.Copy(client, far)
				_ = client.Close()
			})
			all.Go(func() {
				w.pass(client, far)
				_ = far.Close()
			})
		}
	})
	u.Host = l.Addr().String()
	return w, &database{url: u.String(), near: d.near}
}

// pass passes on what the client sends until it ends, each message after it was counted: the
// caller may have the answer to the last one at once.
func (w *wire) pass(client io.Reader, far io.Writer) {
	b := pgproto3.NewBackend(client, io.Discard)
	message, err := b.ReceiveStartupMessage()
	for ; err == nil; message, err = b.Receive() {
		w.count(message)
		sent, err := message.Encode(nil)
		if err != nil {
			return
		}
		if _, err := far.Write(sent); err != nil {
			return
		}
	}
}

func (w *wire) count(message pgproto3.FrontendMessage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch m := message.(type) {
	case *pgproto3.Sync:
		w.trips++
	case *pgproto3.Query:
		if m.String != "-- ping" { // of a connection that was idle for long
			w.trips++
		}
	case *pgproto3.Parse:
		if m.Name != "" {
			w.prepared++
		}
	}
}

// connections returns how many were opened so far.
func (w *wire) connections() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

// of returns how many round trips do takes, and how many statements it prepares.
func (w *wire) of(do func()) (trips, prepared int) {
	w.mu.Lock()
	w.trips, w.prepared = 0, 0
	w.mu.Unlock()
	do()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.trips, w.prepared
}

// byNew opens a store by New, on a pool of what else the URL has.
func byNew(t *testing.T, address string) driver.Store {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	name := q.Get("schema")
	q.Del("schema")
	u.RawQuery = q.Encode()
	pool, err := pgxpool.New(context.WithoutCancel(t.Context()), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pglock.New(pool, &pglock.Options{Schema: name})
}

// eachWay runs a test with stores by URL and by New, which are closed with the test.
func eachWay(t *testing.T, test func(t *testing.T, open func(t *testing.T, address string) driver.Store)) {
	for way, s := range map[string]func(t *testing.T, address string) driver.Store{
		"by URL": func(t *testing.T, address string) driver.Store { return openURL(t, address) }, "by New": byNew,
	} {
		t.Run(way, func(t *testing.T) {
			test(t, func(t *testing.T, address string) driver.Store {
				s := s(t, address)
				t.Cleanup(func() { closeStore(t, s) })
				return s
			})
		})
	}
}

// Every operation is one round trip, once what it sends often is prepared on its
// connection.
func TestRoundTrips(t *testing.T) {
	eachWay(t, func(t *testing.T, open func(t *testing.T, address string) driver.Store) {
		w, d := newWire(t, newDatabase(t))
		s := open(t, d.urlOf(t, schema(), "pool_max_conns", "1"))
		start(t, s)
		watch := func() {
			if _, err := s.(driver.Watcher).Watch(t.Context(), "watched"); err != nil {
				t.Error(err)
			}
		}
		want := func(what string, trips, prepared int, do func()) {
			t.Helper()
			if gotTrips, gotPrepared := w.of(do); gotTrips != trips || gotPrepared != prepared {
				t.Errorf("%s: %d round trips, %d of them to prepare, want %d and %d", what, gotTrips, gotPrepared, trips, prepared)
			}
		}
		var ref driver.HoldRef
		want("first acquire", 2, 1, func() { ref = ask.Granted(t, s, ask.Request("r", "a")) })
		want("first release", 2, 1, func() { release(t, s, true, ref) })
		watch()
		want("init", 1, 0, func() { start(t, s) })
		want("acquire", 1, 0, func() { ref = ask.Granted(t, s, ask.Request("r", "a")) })
		want("acquire that is refused", 1, 0, func() { _ = ask.Refused(t, s, ask.Request("r", "b")) })
		want("acquire that gets a place", 1, 0, func() { _ = ask.Refused(t, s, waiting(ask.Request("r", "b"))) })
		want("renew", 1, 0, func() {
			if rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}}); err != nil || rs[0].Err != nil {
				t.Errorf("%v %v", rs, err)
			}
		})
		want("list", 1, 0, func() {
			for st, err := range s.List(t.Context(), driver.Filter{}) {
				if err != nil || st.Resource != "r" {
					t.Errorf("%+v, error %v", st, err)
				}
			}
		})
		want("release", 1, 0, func() { release(t, s, true, ref) })
		want("acquire of what is new", 1, 0, func() { ask.Granted(t, s, ask.Request("new", "a")) })
		want("watch of what is watched", 0, 0, watch)
		want("sweep", 1, 0, func() {
			if _, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil {
				t.Error(err)
			}
		})
	})
}

// Parameters decide whether statements are prepared.
func TestPrepares(t *testing.T) {
	near := newDatabase(t)
	eachWay(t, func(t *testing.T, open func(t *testing.T, address string) driver.Store) {
		for _, c := range []struct {
			params   []string
			prepared int
		}{
			{nil, 2},
			{[]string{"default_query_exec_mode", "cache_statement"}, 2},
			{[]string{"default_query_exec_mode", "exec"}, 0},
			{[]string{"default_query_exec_mode", "simple_protocol"}, 0},
			{[]string{"default_query_exec_mode", "cache_describe"}, 0},
			{[]string{"statement_cache_capacity", "0"}, 0},
		} {
			w, d := newWire(t, near)
			s := open(t, d.urlOf(t, schema(), c.params...))
			start(t, s)
			if _, prepared := w.of(func() { release(t, s, true, ask.Granted(t, s, ask.Request("r", "a"))) }); prepared != c.prepared {
				t.Errorf("%q: %d statements prepared, want %d", c.params, prepared, c.prepared)
			}
		}
	})
}

// What was prepared on one session is missing on the next one that PgBouncer chooses, or
// is there already: that is no error, and the store prepares no more.
func TestPreparedBehindPgBouncer(t *testing.T) {
	near := newDatabase(t)
	bounced := &database{url: engines.PgBouncer(t, near.url), near: near.near}
	eachWay(t, func(t *testing.T, open func(t *testing.T, address string) driver.Store) {
		w, d := newWire(t, bounced)
		name := schema()
		opened(t, near.urlOf(t, name)) // installs it
		s := open(t, d.urlOf(t, name)) // and is not told of the proxy by Init
		inParallel(t, s)
		start(t, s)
		trips, prepared := w.of(func() { release(t, s, true, ask.Granted(t, s, ask.Request("r", "a"))) })
		if trips != 2 || prepared != 0 {
			t.Errorf("%d round trips, %d statements prepared, want 2 and none", trips, prepared)
		}
	})
}

// Somebody installs functions anew whose rows are others: the server refuses to execute
// what was prepared before. That costs a connection one request, which was not done.
func TestPreparedBeforeInstallation(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	w, far := newWire(t, d)
	s := opened(t, far.urlOf(t, p.name, "pool_max_conns", "1"))
	release(t, s, true, ask.Granted(t, s, ask.Request("r", "a")))
	var text string
	if err := d.near.QueryRow(t.Context(), "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'change' AND pronamespace = $1::regnamespace", p.name).
		Scan(&text); err != nil {
		t.Fatal(err)
	}
	p.exec(t, "ALTER FUNCTION SCHEMA.change RENAME TO change_then")
	p.exec(t, `CREATE FUNCTION SCHEMA.change(text[], text[], text[], bigint[], bigint[], text[], boolean, boolean)
		RETURNS TABLE (outcome int, clock bigint, ends bigint, waiters int, more int) LANGUAGE sql AS
		'SELECT c.*, 7 FROM SCHEMA.change_then($1, $2, $3, $4, $5, $6, $7, $8) c'`)
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	answered := func() error {
		rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
		if err != nil {
			t.Fatal(err)
		}
		return rs[0].Err
	}
	if err := answered(); err == nil {
		t.Error("a statement was executed whose result has changed")
	}
	if err := answered(); err == nil {
		t.Error("a row with a column too many was read")
	}
	p.exec(t, "DROP FUNCTION SCHEMA.change")
	run(t, d.near, text)
	_ = answered()
	trips, _ := w.of(func() {
		if err := answered(); err != nil {
			t.Errorf("after it was installed again: %v", err)
		}
	})
	if trips > 2 {
		t.Errorf("%d round trips", trips)
	}
}
