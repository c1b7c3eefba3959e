package eslock_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/tests/ask"
	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/faults"
)

// What concerns a whole node: each kind has one of the test's own.
func TestNode(t *testing.T) {
	t.Parallel()
	engines.SearchServers(t, func(t *testing.T, server *engines.SearchServer) {
		t.Run("compiled once", func(t *testing.T) { compiledOnce(t, newNode(t, server.Engine)) })
		t.Run("crash", func(t *testing.T) { crash(t, server) })
		t.Run("restarted", func(t *testing.T) { restarted(t, server) })
		t.Run("blocks", func(t *testing.T) { blocks(t, newNode(t, server.Engine)) })
		t.Run("no field data of IDs", func(t *testing.T) { noFieldData(t, newNode(t, server.Engine)) })
		t.Run("red again", func(t *testing.T) { redAgain(t, newNode(t, server.Engine)) })
	})
}

// What was granted before a node crashed is there when it is back: the hold, its
// token and its end. In between nobody is told anything else.
func crash(t *testing.T, server *engines.SearchServer) {
	n := newNode(t, server.Engine)
	opts := &eslock.Options{Index: n.Index(t)}
	s := newStore(t, n, opts)
	c := holdfast.New(eslock.New(n, opts), nil)
	long, err := c.Lock(t.Context(), "long", &holdfast.LockOptions{TTL: 10 * time.Minute, Comment: "over a crash"})
	if err != nil {
		t.Fatal(err)
	}
	short, err := c.Lock(t.Context(), "short", &holdfast.LockOptions{TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	released := ask.Granted(t, s, ask.Request("released", "a"))
	ask.Released(t, s, released, 0)
	ref := ask.Granted(t, s, ask.Shared(ask.Request("r", "a"), 2))
	before := statuses(t, s)
	checkNotSynced := notSynced(t, n)

	server.Stop()
	for what, err := range tryAll(t, s, ref) {
		if faults.MustBeUnknown(t, err); err == nil {
			t.Errorf("%s: the node is gone", what)
		}
	}
	<-short.Context().Done()
	if cause := context.Cause(short.Context()); !errors.Is(cause, holdfast.ErrUnreachable) {
		t.Errorf("lost for the reason %v", cause)
	}
	if err := context.Cause(long.Context()); err != nil {
		t.Errorf("the hold with time left was lost: %v", err)
	}

	server.Restart(t)
	checkNotSynced()
	after := statuses(t, s)
	delete(before, "short") // it has ended meanwhile
	if delete(after, "short"); len(after) != len(before) {
		t.Errorf("there is %+v, there was %+v", after, before)
	}
	for r, was := range before {
		is := after[r]
		if is.Left >= was.Left || is.Left < was.Left-9*time.Minute {
			t.Errorf("%q: %v are left, before the crash it was %v", r, is.Left, was.Left)
		}
		if is.Left, is.Seen = was.Left, was.Seen; is != was {
			t.Errorf("%q is %+v, it was %+v", r, is, was)
		}
	}
	if err := long.Renew(t.Context(), 0); err != nil {
		t.Error(err)
	}
	_ = ask.Refused(t, s, ask.Request("long", "b"))
	if next := ask.Granted(t, s, ask.Request("released", "b")); next.Token <= released.Token {
		t.Errorf("token %d follows %d", next.Token, released.Token)
	}
	if next := awaitGrant(t, s, "short"); next.Token <= short.Token() {
		t.Errorf("token %d follows %d", next.Token, short.Token())
	}
	if err := long.Unlock(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil && !errors.Is(err, holdfast.ErrLost) {
		t.Error(err)
	}
}

// statuses are all holds, by resource.
func statuses(t *testing.T, s driver.Store) map[string]driver.Status {
	t.Helper()
	all := make(map[string]driver.Status)
	for status, err := range s.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[status.Resource] = status
	}
	return all
}

// awaitGrant acquires the resource when the hold before has ended.
func awaitGrant(t *testing.T, s driver.Store, resource string) (ref driver.HoldRef) {
	t.Helper()
	ask.Until(t, resource+" is free", func() bool {
		q := ask.Request(resource, "next")
		g, err := s.Acquire(t.Context(), q)
		if err != nil && !errors.Is(err, driver.ErrHeld) {
			t.Fatal(err)
		}
		ref = driver.HoldRef{Resource: resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
		return err == nil
	})
	return ref
}

// notSynced takes a lock in an index that syncs later. After a crash that may be
// lost, but not the order of tokens.
func notSynced(t *testing.T, n node) (check func()) {
	opts := &eslock.Options{Index: n.Index(t)}
	n.Must(t, http.MethodPut, "/"+opts.Index, object{"settings": object{
		"index.translog.durability": "async", "index.translog.sync_interval": "1h",
	}})
	s := newStore(t, n, opts)
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	return func() {
		if st := statuses(t, s)["r"]; st.Ref() != ref {
			t.Log("not synced, a hold was lost")
			if s.Traits().Durable {
				t.Errorf("there is %+v, want the hold %+v", st, ref)
			}
		}
		rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
		if err != nil || rs[0].Err != nil {
			t.Error(rs, err)
		}
		if next := ask.Granted(t, s, ask.Request("r", "b")); next.Token <= ref.Token {
			t.Errorf("token %d follows %d", next.Token, ref.Token)
		}
	}
}

// What keeps a node from writing grants and takes nothing.
func blocks(t *testing.T, n node) {
	s := newStore(t, n, &eslock.Options{Index: n.Index(t)})
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	cluster := func(setting string, value any) {
		t.Helper()
		n.Must(t, http.MethodPut, "/_cluster/settings", object{"transient": object{setting: value}})
	}
	for name, c := range map[string]struct {
		setting string
		value   any
		lasting bool
		says    string
	}{
		"too much at once": {"network.breaker.inflight_requests.limit", "1b", false, "429"},
		"read-only":        {"cluster.blocks.read_only", true, true, "blocks"},
	} {
		cluster(c.setting, c.value)
		for what, err := range tryAll(t, s, ref) {
			if !c.lasting {
				faults.MustBeUnknown(t, err)
			}
			if err == nil || errors.Is(err, driver.ErrUnusable) != c.lasting || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: error %v; want one that says %q, lasting: %v", name, what, err, c.says, c.lasting)
			}
		}
		cluster(c.setting, nil)
		if st := statuses(t, s)[ref.Resource]; st.Ref() != ref {
			t.Errorf("%s: there is %+v, want the hold %+v", name, st, ref)
		}
	}
}

// A cluster may forbid to sort by _id: more than a page of holds, of old programs
// too, is listed and swept all the same.
func noFieldData(t *testing.T, n node) {
	const holds, old = 1010, 5
	index := n.Index(t)
	s := newStore(t, n, &eslock.Options{Index: index, OldClients: true})
	n.Must(t, http.MethodPut, "/_cluster/settings", object{"transient": object{"indices.id_field_data.enabled": false}})
	var all sync.WaitGroup
	for worker := range 10 {
		all.Go(func() {
			for i := worker; i < holds-old; i += 10 {
				q := ask.Request(fmt.Sprint("r", i), "a")
				q.TTL = time.Second
				if _, err := s.Acquire(t.Context(), q); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for i := range old {
		n.oldClient(t, index, "old").acquire(fmt.Sprint("old ", i), time.Second)
	}
	found := map[string]int{}
	for status, err := range s.List(t.Context(), driver.Filter{Expired: true}) {
		if err != nil {
			t.Fatal(err)
		}
		found[status.Resource]++
	}
	if len(found) != holds {
		t.Errorf("%d are listed, want %d", len(found), holds)
	}
	swept := 0
	ask.Until(t, "all have been swept", func() bool {
		r, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		swept += r.Holds
		return swept >= holds
	})
	if swept != holds {
		t.Errorf("%d are swept, want %d", swept, holds)
	}
}

// An index that is red again after it was in use leaves everything open, and has
// what it had when it is back.
func redAgain(t *testing.T, n node) {
	index := n.Index(t)
	s := newStore(t, impatient{n}, &eslock.Options{Index: index, Replicas: -1})
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	primaries := func(number any) {
		t.Helper()
		n.Must(t, http.MethodPut, "/_cluster/settings", object{"transient": object{
			"cluster.routing.allocation.node_initial_primaries_recoveries": number,
		}})
	}
	primaries(0)
	n.Must(t, http.MethodPost, "/"+index+"/_close", nil)
	n.Must(t, http.MethodPost, "/"+index+"/_open?wait_for_active_shards=0", nil)
	for what, err := range tryAll(t, s, ref) {
		red(t, what, err)
	}
	primaries(nil)
	n.Must(t, http.MethodPost, "/_cluster/reroute", nil)
	n.awaitShards(t, index)
	_ = ask.Refused(t, s, ask.Request("r", "b"))
	if !ask.Released(t, s, ref, 0) {
		t.Error("the hold is gone")
	}
}
