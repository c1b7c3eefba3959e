package eslock_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/faults"
)

// Changes to an index in use cause errors that say how to fix them. Nothing is granted or
// lost because of them.
func TestIndexInTrouble(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		for name, c := range map[string]struct {
			trouble, fix func(t *testing.T, n node, index string)
			says         string
			lasting      bool
		}{
			"closed": {
				func(t *testing.T, n node, index string) { n.Must(t, http.MethodPost, "/"+index+"/_close", nil) },
				func(t *testing.T, n node, index string) { n.Must(t, http.MethodPost, "/"+index+"/_open", nil) },
				"open it", true,
			},
			"disk full": {
				func(t *testing.T, n node, index string) { n.set(t, index, "blocks.read_only_allow_delete", true) },
				func(t *testing.T, n node, index string) { n.set(t, index, "blocks.read_only_allow_delete", nil) },
				"free space", false, // the server removes it
			},
			"no writes": {
				func(t *testing.T, n node, index string) { n.set(t, index, "blocks.write", true) },
				func(t *testing.T, n node, index string) { n.set(t, index, "blocks.write", nil) },
				"index.blocks", true,
			},
			"read-only": {
				func(t *testing.T, n node, index string) { n.set(t, index, "blocks.read_only", true) },
				func(t *testing.T, n node, index string) { n.set(t, index, "blocks.read_only", nil) },
				"index.blocks", true,
			},
		} {
			t.Run(name, func(t *testing.T) {
				n := n.in(t)
				index := n.Index(t)
				s := newStore(t, n, &eslock.Options{Index: index, Replicas: -1})
				ref := ask.Granted(t, s, ask.Request("r", "a"))
				c.trouble(t, n, index)
				for what, err := range tryAll(t, s, ref) {
					if errors.Is(err, driver.ErrUnusable) != c.lasting || !strings.Contains(err.Error(), index) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s: error %v; want one that says %q, ErrUnusable: %v", what, err, c.says, c.lasting)
					}
				}
				c.fix(t, n, index)
				_ = ask.Refused(t, s, ask.Request("r", "b"))
				for status, err := range s.List(t.Context(), driver.Filter{}) {
					if err != nil || status.Ref() != ref {
						t.Errorf("found %+v, %v; want only the hold %+v", status, err, ref)
					}
				}
				ask.Released(t, s, ref, 0)
			})
		}
	})
}

// A missing primary shard leaves all outcomes unknown, which passes by itself.
func TestRedIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		n.Must(t, http.MethodPut, "/"+index+"?wait_for_active_shards=0", object{
			"settings": object{"number_of_replicas": 0, "routing.allocation.require._name": "nobody"},
		})
		s := newStore(t, impatient{n}, &eslock.Options{Index: index})
		q := ask.Request("r", "a")
		_, err := s.Acquire(t.Context(), q)
		red(t, "first", err)
		ref := driver.HoldRef{Resource: "r", LockID: "a", HoldID: q.HoldID, Token: 1}
		for what, err := range tryAll(t, s, ref) {
			red(t, what, err)
		}
		// The server waits a minute for a refresh.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = s.Sweep(ctx, driver.SweepRequest{Idle: time.Hour})
		faults.MustBeUnknown(t, err)
		n.set(t, index, "routing.allocation.require._name", nil)
		n.awaitShards(t, index)
		// A shard that has just started may need more time than impatient allows.
		patient := newStore(t, n, &eslock.Options{Index: index})
		ask.Granted(t, patient, q)
		ask.Lost(t, patient, ref)
	})
}

func red(t *testing.T, what string, err error) {
	t.Helper()
	faults.MustBeUnknown(t, err)
	if err != nil && !strings.Contains(err.Error(), "shard") {
		t.Errorf("%s: error %v does not name the cause", what, err)
	}
}

func (n node) awaitShards(t *testing.T, index string) {
	t.Helper()
	n.Must(t, http.MethodGet, "/_cluster/health/"+index+"?wait_for_status=yellow&timeout=60s", nil)
}

// impatient makes the server wait for no shard.
type impatient struct{ node }

func (i impatient) Perform(req *http.Request) (*http.Response, error) {
	if q := req.URL.Query(); q.Has("timeout") {
		q.Set("timeout", "10ms")
		req.URL.RawQuery = q.Encode()
	}
	return i.node.Perform(req)
}

// set changes a setting of an index.
func (n node) set(t testing.TB, index, setting string, value any) {
	t.Helper()
	n.Must(t, http.MethodPut, "/"+index+"/_settings", object{"index." + setting: value})
}

func tryAll(t testing.TB, s driver.Store, ref driver.HoldRef) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	_, errs["acquire"] = s.Acquire(t.Context(), ask.Request("new", "a"))
	_, errs["acquire held"] = s.Acquire(t.Context(), ask.Request("r", "b"))
	_, errs["acquire by bulk"] = s.Acquire(t.Context(), ask.Request("a/b", "b"))
	renewals := []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}, {HoldRef: ref, TTL: time.Hour}}
	for n := 1; n <= 2; n++ {
		rs, err := s.Renew(t.Context(), renewals[:n])
		if err == nil {
			err = rs[n-1].Err
		}
		errs[[]string{"", "renew", "renew two"}[n]] = err
	}
	released, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
	if err == nil {
		err = released[0].Err
	}
	errs["release"] = err
	for _, err := range s.List(t.Context(), driver.Filter{Resource: "r"}) {
		errs["list"] = err
	}
	return errs
}

// Open stores do not create a deleted index again.
func TestIndexDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		n.Must(t, http.MethodDelete, "/"+index, nil)
		deleted := func() {
			t.Helper()
			for what, err := range tryAll(t, s, ref) {
				if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), index) {
					t.Errorf("%s: error %v; want ErrUnusable", what, err)
				}
			}
		}
		deleted()
		if status, _ := n.Ask(t.Context(), t, http.MethodGet, "/"+index, nil); status != http.StatusNotFound {
			t.Error("a write created the index again")
		}
		// An index that an old client creates in its place is not used either.
		n.oldClient(t, index, "old").acquire("other", time.Hour)
		deleted()
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
		_ = ask.Refused(t, s, ask.Request("other", "a"))
		ask.Lost(t, s, ref)
		if next := ask.Granted(t, s, ask.Request("r", "b")); next.Token <= ref.Token {
			t.Errorf("token %d follows %d", next.Token, ref.Token)
		}
	})
}

// The holders of locks in the index notice the deletion: at the latest at the end of the
// locks, or at the first renewal after another client has created the index again.
func TestHolderAfterIndexDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		for name, c := range map[string]struct {
			again bool
			cause error
		}{"gone": {false, holdfast.ErrUnreachable}, "made again": {true, holdfast.ErrForced}} {
			t.Run(name, func(t *testing.T) {
				n := n.in(t)
				opts := &eslock.Options{Index: n.Index(t)}
				c1 := holdfast.New(eslock.New(n, opts), nil)
				defer func() { _ = c1.Close() }() // its hold is lost
				h, err := c1.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: 3 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				n.Must(t, http.MethodDelete, "/"+opts.Index, nil)
				if c.again {
					newStore(t, n, opts)
				}
				<-h.Context().Done()
				if cause := context.Cause(h.Context()); !errors.Is(cause, c.cause) {
					t.Errorf("lost because of %v, want %v", cause, c.cause)
				}
				_, err = c1.TryLock(t.Context(), "r2", nil)
				if gone := errors.Is(err, driver.ErrUnusable); gone == c.again {
					t.Errorf("the next lock: %v", err)
				}
			})
		}
	})
}

// More copies than there are nodes do not prevent locking, unless they are required: then
// nothing is written.
func TestReplicasThatAreMissing(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		opts := &eslock.Options{Index: n.Index(t), Replicas: 2}
		s := newStore(t, n, opts)
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		for _, copies := range []string{"2", "all"} {
			strict := newStore(t, impatient{n}, &eslock.Options{Index: opts.Index, WaitForActiveShards: copies})
			for what, err := range tryAll(t, strict, ref) {
				if what == "list" || what == "acquire held" {
					continue // they write nothing
				}
				faults.MustBeUnknown(t, err)
				if err != nil && (!strings.Contains(err.Error(), "unavailable_shards") || strings.Contains(err.Error(), "painless")) {
					t.Errorf("%s: error %v does not name the cause, or quotes the request", what, err)
				}
			}
		}
		for status, err := range s.List(t.Context(), driver.Filter{}) {
			if err != nil || status.Ref() != ref {
				t.Errorf("found %+v, %v", status, err)
			}
		}
		ask.Released(t, s, ref, 0)
	})
}
