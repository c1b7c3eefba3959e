package pglock_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// A PgBouncer that has no room for a moment is no reason to give up: Lock goes on until it
// is granted, and a holder keeps its lock. TestWrap of package pglock has the answers of
// poolers.
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
	held, err := client.Lock(t.Context(), "held", nil)
	if err != nil {
		t.Fatal(err)
	}
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waited := make(chan error, 1)
	go func() {
		h, err := client.Lock(ctx, "waited", nil)
		if err == nil {
			err = h.Unlock(ctx)
		}
		waited <- err
	}()
	refused := 0
	ask.Until(t, "attempts are refused", func() bool { refused++; return refused > 3 || len(waited) > 0 })
	set("1000")
	if err := <-waited; err != nil {
		t.Errorf("Lock: %v", err)
	}
	if err := held.Unlock(ctx); err != nil {
		t.Errorf("the holder's Unlock: %v", err)
	}
}
