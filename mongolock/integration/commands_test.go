package mongolock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// Each operation takes one command, and a second one only if the first found less than
// was requested.
func TestCommandsPerOperation(t *testing.T) {
	coll, commands := sent.Through(t, newCollection(t))
	s := newStore(t, coll)
	one := []string{"findAndModify"}
	var ref driver.HoldRef
	commands.Want(t, "acquire of a new resource", one, func() { ref = ask.Granted(t, s, ask.Request("r", "a")) })
	commands.Want(t, "refusal", one, func() {
		if _, err := s.Acquire(t.Context(), ask.Request("r", "b")); !errors.Is(err, driver.ErrHeld) {
			t.Error(err)
		}
	})
	commands.Want(t, "release", []string{"update"}, func() { release(t, s, true, ref) })
	commands.Want(t, "release of nothing", []string{"update", "find"}, func() { release(t, s, false, ref) })
	commands.Want(t, "acquire", one, func() { ask.Granted(t, s, ask.Request("r", "a")) })
	commands.Want(t, "shared acquire", one, func() { ask.Granted(t, s, ask.Shared(ask.Request("s", "a"), 2)) })
	commands.Want(t, "shared refusal", one, func() {
		if _, err := s.Acquire(t.Context(), ask.Shared(ask.Request("s", "b"), 1)); !errors.Is(err, driver.ErrHeld) {
			t.Error(err)
		}
	})

	renewals := make([]driver.RenewRequest, 500)
	refs := make([]driver.HoldRef, len(renewals))
	for i := range renewals {
		refs[i] = ask.Granted(t, s, ask.Request(fmt.Sprint("job ", i), "a"))
		renewals[i] = driver.RenewRequest{HoldRef: refs[i], TTL: driver.Forever}
	}
	commands.Want(t, "500 renewals", []string{"update"}, func() { renew(t, s, renewals, -1) })
	renewals[7].Token++
	commands.Want(t, "500 renewals of which one is lost", []string{"update", "find"}, func() { renew(t, s, renewals, 7) })
	got := commands.Names(func() { release(t, s, true, refs...) })
	if slices.Compact(got)[0] != "find" || got[len(got)-1] != "update" || slices.Contains(got[:len(got)-1], "update") {
		t.Errorf("500 releases sent %q, want one update after the reads", got)
	}
}

func release(t testing.TB, s driver.Store, found bool, refs ...driver.HoldRef) {
	t.Helper()
	qs := make([]driver.ReleaseRequest, len(refs))
	for i, ref := range refs {
		qs[i].HoldRef = ref
	}
	rs, err := s.Release(t.Context(), qs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rs {
		if r.Err != nil || r.Found != found {
			t.Errorf("release %d: found %v, error %v", i, r.Found, r.Err)
		}
	}
}

func renew(t testing.TB, s driver.Store, qs []driver.RenewRequest, lost int) {
	t.Helper()
	rs, err := s.Renew(t.Context(), qs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rs {
		if errors.Is(r.Err, driver.ErrLost) != (i == lost) || i != lost && r.Err != nil {
			t.Errorf("renewal %d: %v", i, r.Err)
		}
	}
}

// A thousand holds may share a resource: the reply to a grant does not contain all of
// them, the reply to a refusal does.
func TestHoldersInReplies(t *testing.T) {
	var last bson.Raw
	s := newStore(t, engines.MongoThrough(t, newCollection(t), options.Client().SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { last = bytes.Clone(e.Reply) },
	})))
	holders := func() int {
		t.Helper()
		locks, err := last.Lookup("value", "shared", "locks").Array().Values()
		if err != nil {
			t.Fatal(err)
		}
		return len(locks)
	}
	q := ask.Shared(ask.Request("r", "a"), 3)
	for _, q := range []driver.AcquireRequest{ask.Shared(ask.Request("r", "$a"), 3), q, ask.Shared(ask.Request("r", "c"), 3), q} {
		ask.Granted(t, s, q)
		if n := holders(); n != 1 {
			t.Errorf("granted to %q: the reply has %d holders, want only its own", q.LockID, n)
		}
	}
	_, err := s.Acquire(t.Context(), ask.Shared(ask.Request("r", "d"), 3))
	var held *driver.HeldError
	if !errors.As(err, &held) || len(held.Holders) != 3 || holders() != 3 {
		t.Errorf("refused with %v, and %d holders in the reply, want 3", err, holders())
	}
}
