package eslock_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
)

// Tests that affect a whole node. Each has a node of its own.
func TestNode(t *testing.T) {
	t.Parallel()
	engines.SearchServers(t, func(t *testing.T, server *engines.SearchServer) {
		t.Run("compiled once", func(t *testing.T) { compiledOnce(t, newNode(t, server.Engine)) })
		t.Run("not synced", func(t *testing.T) { notSynced(t, server) })
		t.Run("restarted", func(t *testing.T) { restarted(t, server) })
		t.Run("blocks", func(t *testing.T) { blocks(t, newNode(t, server.Engine)) })
		t.Run("no field data of IDs", func(t *testing.T) { noFieldData(t, newNode(t, server.Engine)) })
		t.Run("red again", func(t *testing.T) { redAgain(t, newNode(t, server.Engine)) })
	})
}

// A crash may lose a lock in an index that syncs later, but does not change the order of
// tokens.
func notSynced(t *testing.T, server *engines.SearchServer) {
	n := newNode(t, server.Engine)
	opts := &eslock.Options{Index: n.Index(t)}
	n.Must(t, http.MethodPut, "/"+opts.Index, object{"settings": object{
		"index.translog.durability": "async", "index.translog.sync_interval": "1h",
	}})
	s := newStore(t, n, opts)
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	server.Restart(t)
	if all := held(t, s, "r"); len(all) != 1 || all[0].Ref() != ref {
		t.Log("not synced, a hold was lost")
		if s.Traits().Durable {
			t.Errorf("found %+v, want the hold %+v", all, ref)
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

// If writes to a node are blocked, it neither grants nor releases.
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
		if all := held(t, s, ref.Resource); len(all) != 1 || all[0].Ref() != ref {
			t.Errorf("%s: found %+v, want the hold %+v", name, all, ref)
		}
	}
}

// A cluster may forbid sorting by _id. More than a page of holds, including those by old
// programs, can still be listed and swept.
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
		t.Errorf("%d holds are listed, want %d", len(found), holds)
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

// While an index that was in use is red, all outcomes are unknown. Afterwards it has its
// former content.
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
