package mongodoc_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/compat/mongodoc"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/ask"
	"github.com/holdfast-go/holdfast/tests/engines"
)

// commands are the names of what was sent.
type commands struct {
	mu    sync.Mutex
	names []string
}

// monitored is the same collection by a client whose commands are noted.
func monitored(t testing.TB, coll *mongo.Collection) (*mongo.Collection, *commands) {
	t.Helper()
	c := &commands{}
	client, err := mongo.Connect(options.Client().ApplyURI(engines.MongoDB(t).URL).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.names = append(c.names, e.CommandName)
		},
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Disconnect(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return client.Database(coll.Database().Name()).Collection(coll.Name()), c
}

// sent returns what was sent since it was asked last.
func (c *commands) sent() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	return names
}

// One command for each operation, and a second one only where the first found
// less than it was asked for.
func TestCommandsPerOperation(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll, c := monitored(t, newCollection(t))
		s := start(t, l.open(coll))
		check := func(what string, want ...string) {
			t.Helper()
			if got := c.sent(); !slices.Equal(got, want) {
				t.Errorf("%s sent %q, want %q", what, got, want)
			}
		}
		end := "update"
		if l.name == "TTL" {
			end = "delete"
		}
		c.sent()
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		check("acquire of a new resource", "findAndModify")
		if _, err := s.Acquire(t.Context(), ask.Request("r", "b")); !errors.Is(err, driver.ErrHeld) {
			t.Error(err)
		}
		check("refusal", "findAndModify")
		ask.Released(t, s, ref, 0)
		check("release", end)
		ask.Released(t, s, ref, 0)
		check("release of nothing", end, "find")
		var renewals []driver.RenewRequest
		for i := range 500 {
			ref := ask.Granted(t, s, ask.Request(fmt.Sprint("job ", i), "a"))
			renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: driver.Forever})
		}
		c.sent()
		if _, err := s.Renew(t.Context(), renewals); err != nil {
			t.Error(err)
		}
		check("500 renewals", "update")
	})
}

// What cannot be is refused before anything is sent.
func TestRefusedBeforeItIsSent(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll, c := monitored(t, newCollection(t))
		s := l.open(coll)
		if _, err := s.Acquire(t.Context(), ask.Request("r", "a")); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "Init") {
			t.Errorf("acquire before Init: %v", err)
		}
		start(t, s)
		c.sent()
		shared := ask.Request("r", "a")
		shared.Mode = driver.Shared
		if _, err := s.Acquire(t.Context(), shared); !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("shared: %v", err)
		}
		if l.name != "value" {
			if _, err := s.Acquire(t.Context(), ask.Request("r", mongodoc.OldLockID)); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("by the lock ID of old programs: %v", err)
			}
		}
		if names := c.sent(); len(names) != 0 {
			t.Errorf("sent %q", names)
		}
	})
}

func TestTimeouts(t *testing.T) {
	coll := newCollection(t)
	for _, timeout := range []time.Duration{-time.Second, 1 << 62, time.Microsecond} {
		for _, s := range []*mongodoc.Store{
			mongodoc.NewFlag(coll, &mongodoc.FlagOptions{Timeout: timeout}), mongodoc.NewTTL(coll, &mongodoc.TTLOptions{Timeout: timeout}),
		} {
			if err := s.Init(t.Context()); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("timeout %v: %v", timeout, err)
			}
		}
	}
	if err := mongodoc.NewTTL(coll, &mongodoc.TTLOptions{Timeout: time.Millisecond}).Init(t.Context()); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("part of a second for an index: %v", err)
	}
}

// A resource that many take for the first time is had by one of them.
func TestManyAtOnce(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		s := start(t, l.open(newCollection(t)))
		var mu sync.Mutex
		var all sync.WaitGroup
		granted := 0
		for i := range 32 {
			all.Go(func() {
				_, err := s.Acquire(t.Context(), ask.Request("r", fmt.Sprint(i)))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					granted++
				} else if !errors.Is(err, driver.ErrHeld) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if granted != 1 {
			t.Errorf("%d were granted it", granted)
		}
	})
}
