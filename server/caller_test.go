package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/access"
)

// renamed is everybody under a name.
type renamed struct {
	access.Caller
	name string
}

func (c renamed) Name() string { return c.name }

// A name that could reach into the lock IDs of another caller has no request served, and
// neither has no caller at all.
func TestCallersWithoutAGoodName(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, nil, &server.Options{
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
		Identify: func(r *http.Request) (access.Caller, error) {
			if r.Header.Get("Who") == "nil" {
				return nil, nil
			}
			return renamed{access.Everybody(), r.Header.Get("Who")}, nil
		},
	})
	for name, good := range map[string]bool{
		"": true, "a": true, "A-Z.a_9": true, strings.Repeat("x", 64): true, "system": true,
		"nil": false, "system:serviceaccount": false, "a/b": false, "a b": false, "ä": false, strings.Repeat("x", 65): false,
	} {
		log.Reset()
		a := s.get(wire.TraitsPath, "Who", name)
		switch {
		case good && a.status != http.StatusOK:
			t.Errorf("%q: %d %s", name, a.status, a.body)
		case !good && (a.kind() != wire.KindUnknown || log.Len() == 0):
			t.Errorf("%q: %d %s, logged %q", name, a.status, a.body, log.String())
		}
	}
}

// What a caller cancels is no failure of the store.
func TestHangUpsAreNotLogged(t *testing.T) {
	var log bytes.Buffer
	arrived := make(chan struct{}, 1)
	store := blocking{memlock.New(nil), arrived}
	defer store.Store.Close()
	ended := make(chan struct{})
	observer := &server.Observer{Request: func(string, int, wire.Kind, time.Duration) { close(ended) }}
	s := newSite(t, store, &server.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Observer: observer})
	ctx, cancel := context.WithCancel(t.Context())
	done := s.posting(ctx, wire.AcquirePath, wire.AcquireRequest{Resource: "blocks", HoldID: driver.NewHoldID()})
	<-arrived
	cancel()
	if a := <-done; a.err == nil {
		t.Errorf("%d %s", a.status, a.body)
	}
	<-ended
	if strings.Contains(log.String(), "the store failed") {
		t.Error(log.String())
	}
}

// blocking is a store that answers an acquire of one resource when its context ends.
type blocking struct {
	driver.Store
	arrived chan<- struct{}
}

func (b blocking) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if q.Resource == "blocks" {
		b.arrived <- struct{}{}
		<-ctx.Done()
		return driver.Grant{}, ctx.Err()
	}
	return b.Store.Acquire(ctx, q)
}
