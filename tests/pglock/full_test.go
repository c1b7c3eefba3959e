package pglock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/tests/ask"
	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/faults"
	"github.com/holdfast-go/holdfast/tests/proxy"
)

// front is between clients and a server, as a pooler is.
type front struct {
	url string

	mu      sync.Mutex
	refusal *pgproto3.ErrorResponse // what clients are answered; nil: they reach the server
	refused int                     // how often that was
	open    []net.Conn
}

func newFront(t *testing.T, d *database, schema string) *front {
	t.Helper()
	u, err := url.Parse(d.urlOf(t, schema))
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	u.Host = l.Addr().String()
	f := &front{url: u.String()}
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		f.set(nil)
		running.Wait()
	})
	running.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { f.serve(in, server) })
		}
	})
	return f
}

// serve passes all on, or refuses the client.
func (f *front) serve(in net.Conn, server string) {
	defer in.Close()
	f.mu.Lock()
	refusal := f.refusal
	if refusal == nil {
		out, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
		if err != nil {
			f.mu.Unlock()
			return
		}
		f.open = append(f.open, in, out)
		f.mu.Unlock()
		go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
		_, _ = io.Copy(in, out)
		return
	}
	f.refused++
	f.mu.Unlock()
	if _, err := in.Read(make([]byte, 8192)); err != nil { // the startup message
		return
	}
	if answer, err := refusal.Encode(nil); err == nil {
		_, _ = in.Write(answer)
	}
}

// set ends all connections, and refuses new ones from now on, or no longer.
func (f *front) set(refusal *pgproto3.ErrorResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refusal, f.refused = refusal, 0
	for _, conn := range f.open {
		_ = conn.Close()
	}
	f.open = nil
}

func (f *front) refusedTwice() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.refused >= 2
}

// A pooler that has no room for a moment is no reason to give up: Lock goes on until it is
// granted, and a holder keeps its lock. Only what stays so ends Lock at once, also if it has
// the same code.
func TestPoolerIsFull(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	for name, c := range map[string]struct {
		code, message string
		lasting       bool
	}{
		"PgBouncer":                {"08P01", "no more connections allowed (max_client_conn)", false},
		"PgBouncer, new":           {"53300", "no more connections allowed (max_client_conn)", false},
		"no server":                {"08P01", "server login has been failing, try again later (server_login_retry)", false},
		"it cannot look up users":  {"28000", "failed to make auth query", false},
		"a parameter":              {"08P01", "unsupported startup parameter: shema", true},
		"the server has no role":   {"28000", `role "ada" does not exist`, true},
		"the server shuts down":    {"42501", "must be superuser to connect during database shutdown", false},
		"a server that takes over": {"28000", `no pg_hba.conf entry for host "127.0.0.1", user "ada", database "postgres", no encryption`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFront(t, d, p.name)
			client, err := holdfast.Open(t.Context(), f.url, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			held, err := client.Lock(t.Context(), "held: "+name, nil)
			if err != nil {
				t.Fatal(err)
			}
			f.set(&pgproto3.ErrorResponse{Severity: "FATAL", Code: c.code, Message: c.message})
			err = lockWhenRefused(t, client, "r: "+name, f.refusedTwice, func() { f.set(nil) })
			if c.lasting {
				if !errors.Is(err, holdfast.ErrUnusable) || !strings.Contains(err.Error(), c.message) {
					t.Errorf("error %v, want ErrUnusable with the cause", err)
				}
				f.set(nil)
			} else if err != nil {
				t.Errorf("Lock: %v", err)
			}
			if err := held.Unlock(t.Context()); err != nil {
				t.Errorf("the holder's Unlock: %v", err)
			}
		})
	}
}

// lockWhenRefused locks the resource and unlocks it. Once the attempts were refused,
// it calls makeRoom.
func lockWhenRefused(t *testing.T, client *holdfast.Client, resource string, refused func() bool, makeRoom func()) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		h, err := client.Lock(ctx, resource, nil)
		if err == nil {
			err = h.Unlock(ctx)
		}
		done <- err
	}()
	ask.Until(t, "attempts are refused", func() bool { return refused() || len(done) > 0 })
	if len(done) > 0 {
		return <-done
	}
	makeRoom()
	return <-done
}

// So it is with a PgBouncer at its limit.
func TestPgBouncerIsFull(t *testing.T) {
	d := newDatabase(t)
	p := newStore(t, d)
	bouncer := engines.PgBouncer(t, d.url)
	n := proxy.New(t)
	far := (&database{url: bouncer}).at(t, n)
	client, err := holdfast.Open(t.Context(), far.urlOf(t, p.name), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	u, err := url.Parse(bouncer)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/pgbouncer"
	console, err := pgx.Connect(t.Context(), u.String()) // a client, too
	if err != nil {
		t.Fatal(err)
	}
	defer console.Close(t.Context())
	set := func(limit string) {
		t.Helper()
		if _, err := console.PgConn().Exec(t.Context(), "SET max_client_conn = "+limit).ReadAll(); err != nil {
			t.Fatal(err)
		}
	}
	set("1")
	n.Cut()
	s := openURL(t, far.urlOf(t, p.name))
	defer closeStore(t, s)
	_, err = s.Acquire(t.Context(), ask.Request("r", "a"))
	faults.MustBeUnknown(t, err)
	if !strings.Contains(err.Error(), "max_client_conn") {
		t.Fatalf("error %v, want that of a PgBouncer that is full", err)
	}
	times := 0
	err = lockWhenRefused(t, client, "waited", func() bool { times++; return times > 3 }, func() { set("1000") })
	if err != nil {
		t.Errorf("Lock: %v", err)
	}
}
