package pglock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// apart is a schema whose server takes its time with resources that begin with "slow",
// and the name by which the server knows the connections of a test.
type apart struct {
	*place
	app string
}

func newApart(t *testing.T) *apart {
	t.Helper()
	p := newStore(t, newDatabase(t))
	p.exec(t, `CREATE FUNCTION SCHEMA.slowly() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN IF starts_with(NEW.resource, ''slow'') THEN PERFORM pg_sleep(split_part(NEW.resource, '' '', 2)::float8); END IF; RETURN NEW; END'`)
	p.exec(t, "CREATE TRIGGER slowly BEFORE INSERT ON SCHEMA.locks FOR EACH ROW EXECUTE FUNCTION SCHEMA.slowly()")
	return &apart{p, "app_" + p.name}
}

func (a *apart) open(t *testing.T, params ...string) driver.Store {
	t.Helper()
	return opened(t, a.urlOf(t, a.name, append(params, "application_name", a.app)...))
}

// sessions is how many connections of the test the server has, of those that meet the
// condition.
func (a *apart) sessions(t *testing.T, condition string) (n int) {
	t.Helper()
	err := a.near.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1 AND "+condition, a.app).Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const (
	anySession = "true"
	acquiring  = "state = 'active' AND query LIKE '%acquire%'"
)

func TestMostConnections(t *testing.T) {
	a := newApart(t)
	s := a.open(t, "pool_max_conns", "2")
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() { ask.Granted(t, s, ask.Request(fmt.Sprintf("slow 0.2 %d", i), "a")) })
	}
	most := 0
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.Wait()
	}()
	ask.Until(t, "all are granted", func() bool {
		most = max(most, a.sessions(t, acquiring))
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if most != 2 {
		t.Errorf("%d connections were used at a time, want 2", most)
	}
}

// Connections that are always to be there come by themselves, also after others ended.
func TestLeastConnections(t *testing.T) {
	a := newApart(t)
	s := openURL(t, a.urlOf(t, a.name, "application_name", a.app, "pool_min_conns", "2", "pool_max_conns", "3",
		"pool_max_conn_lifetime", "1s", "pool_health_check_period", "20ms"))
	defer closeStore(t, s)
	ask.Until(t, "there are two", func() bool { return a.sessions(t, anySession) == 2 })
	seen := make(map[uint32]bool)
	ask.Until(t, "old ones are replaced", func() bool {
		rows, err := a.near.Query(t.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = $1", a.app)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		now := 0
		for rows.Next() {
			var pid uint32
			if err := rows.Scan(&pid); err != nil {
				t.Fatal(err)
			}
			seen[pid] = true
			now++
		}
		if now > 3 {
			t.Errorf("there are %d", now)
		}
		return len(seen) >= 4
	})
}

// What is not used, or too old, is closed, in the pool and in the store's own.
func TestConnectionsEnd(t *testing.T) {
	a := newApart(t)
	for _, limit := range []string{"pool_max_conn_idle_time", "pool_max_conn_lifetime"} {
		t.Run(limit, func(t *testing.T) {
			s := a.open(t, limit, "200ms", "pool_health_check_period", "10ms")
			for range 3 {
				release(t, s, true, ask.Granted(t, s, ask.Request("r", "a")))
				ask.Until(t, "all are closed", func() bool { return a.sessions(t, anySession) == 0 })
			}
		})
	}
}

// A context ends while the server executes: the statement is cancelled, its connection
// closed, and the next request has another.
func TestContextEndsInMidStatement(t *testing.T) {
	a := newApart(t)
	s := a.open(t, "pool_max_conns", "1")
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := s.Acquire(ctx, ask.Request("slow 60", "a"))
			got <- err
		}()
		ask.Until(t, "it is executed", func() bool { return a.sessions(t, acquiring) == 1 })
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		} else {
			faults.MustBeUnknown(t, err)
		}
		ask.Until(t, "it is cancelled", func() bool { return a.sessions(t, acquiring) == 0 })
		release(t, s, true, ask.Granted(t, s, ask.Request("r", "a")))
	}
}

// Callers who leave while the server executes, or while the statement is prepared, cost no
// connection: theirs has the answer, which nobody waits for, and is the next one's. No cancel
// request is sent, which may come late.
func TestImpatientCallers(t *testing.T) {
	a := newApart(t)
	// The server goes on with such a resource when the table is empty.
	a.exec(t, "CREATE TABLE SCHEMA.gate (resource text)")
	a.exec(t, `CREATE FUNCTION SCHEMA.waits() RETURNS trigger LANGUAGE plpgsql AS
		'BEGIN WHILE EXISTS (SELECT FROM SCHEMA.gate g WHERE g.resource = NEW.resource) LOOP PERFORM pg_sleep(0.005); END LOOP; RETURN NEW; END'`)
	a.exec(t, "CREATE TRIGGER waits BEFORE INSERT ON SCHEMA.locks FOR EACH ROW EXECUTE FUNCTION SCHEMA.waits()")
	for way, d := range map[string]*database{"directly": a.database, "through PgBouncer": {url: engines.PgBouncer(t, a.url), near: a.near}} {
		t.Run(way, func(t *testing.T) {
			eachWay(t, func(t *testing.T, open func(t *testing.T, address string) driver.Store) {
				w, d := newWire(t, d)
				s := open(t, d.urlOf(t, a.name, "application_name", a.app, "pool_max_conns", "1"))
				start(t, s)
				release(t, s, true, ask.Granted(t, s, ask.Request("r", "a")))
				before := w.connections()
				for i := range 5 {
					ctx, cancel := context.WithCancel(t.Context())
					got := make(chan error, 1)
					q := ask.Request(fmt.Sprint(t.Name(), i), "a")
					a.exec(t, "INSERT INTO SCHEMA.gate VALUES ($1)", q.Resource)
					go func() {
						_, err := s.Acquire(ctx, q)
						got <- err
					}()
					ask.Until(t, "it is executed", func() bool { return a.sessions(t, acquiring) == 1 })
					cancel()
					if err := <-got; !errors.Is(err, context.Canceled) {
						t.Errorf("error %v", err)
					}
					a.exec(t, "DELETE FROM SCHEMA.gate")
					release(t, s, true, ask.Granted(t, s, q)) // once more, over the same connection
				}
				if n := w.connections() - before; n != 0 {
					t.Errorf("%d connections were opened", n)
				}
			})
		})
	}
}

// Who leaves while the statement is prepared leaves it unsent.
func TestImpatientCallerIsNotServedLater(t *testing.T) {
	a := newApart(t)
	n := proxy.New(t)
	far := a.at(t, n)
	eachWay(t, func(t *testing.T, open func(t *testing.T, address string) driver.Store) {
		s := open(t, far.urlOf(t, a.name, "application_name", a.app, "pool_max_conns", "1"))
		start(t, s)
		for _, err := range s.List(t.Context(), driver.Filter{}) { // it makes the connection
			if err != nil {
				t.Fatal(err)
			}
		}
		n.Set(proxy.Slow(300 * time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := s.Acquire(ctx, ask.Request(t.Name(), "a"))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		n.Set(proxy.Fault{})
		ask.Granted(t, s, ask.Request(t.Name(), "b"))
	})
}

// A context ends while its request waits for a connection: nothing is sent.
func TestContextEndsInTheQueue(t *testing.T) {
	a := newApart(t)
	s := a.open(t, "pool_max_conns", "1")
	slow := make(chan driver.HoldRef)
	go func() { slow <- ask.Granted(t, s, ask.Request("slow 1", "a")) }()
	ask.Until(t, "the connection is in use", func() bool { return a.sessions(t, acquiring) == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Acquire(ctx, ask.Request("r", "a"))
	faults.MustBeUnknown(t, err)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	release(t, s, true, <-slow)
	ask.Granted(t, s, ask.Request("r", "b"))
}

// Who gives up while it connects leaves a connection for the next.
func TestConnectingGoesOn(t *testing.T) {
	a := newApart(t)
	n := proxy.New(t)
	s := openURL(t, a.at(t, n).urlOf(t, a.name, "application_name", a.app, "pool_max_conns", "1"))
	defer closeStore(t, s)
	n.Set(proxy.Slow(300 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Acquire(ctx, ask.Request("r", "a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	ask.Until(t, "there is a connection", func() bool { return a.sessions(t, "state = 'idle'") == 1 })
	n.Set(proxy.Fault{})
	ask.Granted(t, s, ask.Request("r", "b"))
	if got := a.sessions(t, anySession); got != 1 {
		t.Errorf("%d connections", got)
	}
}

// A connection whose server has ended it is found out by a ping, if it was idle for a
// while: the request that finds it is not the one that fails.
func TestDeadConnectionIsPinged(t *testing.T) {
	a := newApart(t)
	s := a.open(t, "pool_max_conns", "2")
	ask.Granted(t, s, ask.Request("first", "a"))
	ask.Until(t, "it was idle for a while", func() bool { return a.sessions(t, "now() - state_change > '1.2s'") == a.sessions(t, anySession) })
	a.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", a.app)
	ask.Until(t, "it is gone", func() bool { return a.sessions(t, anySession) == 0 })
	ask.Granted(t, s, ask.Request("r", "a"))
}

// Without a ping the outcome is unknown, once for each connection, and nothing is sent
// twice.
func TestDeadConnection(t *testing.T) {
	a := newApart(t)
	s := a.open(t, "pool_max_conns", "1")
	q := ask.Request("r", "a")
	ref := ask.Granted(t, s, q)
	a.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", a.app)
	ask.Until(t, "it is gone", func() bool { return a.sessions(t, anySession) == 0 })
	if _, err := s.Acquire(t.Context(), q); err != nil {
		faults.MustBeUnknown(t, err)
	}
	if g, err := s.Acquire(t.Context(), q); err != nil || g.Token != ref.Token {
		t.Errorf("granted %+v, error %v, want token %d", g, err, ref.Token)
	}
}

// Close waits for what is on its way, and nothing is sent afterwards.
func TestCloseByURL(t *testing.T) {
	a := newApart(t)
	s := openURL(t, a.urlOf(t, a.name, "application_name", a.app, "pool_min_conns", "2"))
	got := make(chan error, 1)
	go func() {
		_, err := s.Acquire(t.Context(), ask.Request("slow 0.5", "a"))
		got <- err
	}()
	ask.Until(t, "it is executed", func() bool { return a.sessions(t, acquiring) == 1 })
	closeStore(t, s)
	closeStore(t, s)
	select {
	case err := <-got:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("Close did not wait for the statement, which has no answer")
	}
	ask.Until(t, "all connections are closed", func() bool { return a.sessions(t, anySession) == 0 })
	_, err := s.Acquire(t.Context(), ask.Request("r", "a"))
	faults.MustBeUnknown(t, err)
}

// A store of which nothing is asked connects to nothing, and can be closed.
func TestCloseUnused(t *testing.T) {
	s := openURL(t, "postgres://127.0.0.1:1/app?sslmode=disable&pool_min_conns=1")
	closeStore(t, s)
	_, err := s.Acquire(t.Context(), ask.Request("r", "a"))
	faults.MustBeUnknown(t, err)
}

// The server knows the connections by a name, and they have what the URL and the
// environment say.
func TestConnectionSettings(t *testing.T) {
	d := newDatabase(t)
	name := schema()
	opened(t, d.urlOf(t, name))
	count := func(app string) (n int) {
		if err := d.near.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $1",
			app).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if count("holdfast") == 0 {
		t.Error("no connection is named holdfast")
	}
	s := openURL(t, d.urlOf(t, name, "client_encoding", "LATIN1"))
	defer closeStore(t, s)
	mustBeUnusable(t, s.(driver.Initializer).Init(t.Context()), "client_encoding")
	t.Setenv("PGAPPNAME", "of the environment")
	opened(t, d.urlOf(t, name))
	if count("of the environment") == 0 {
		t.Error("PGAPPNAME was ignored")
	}
}
