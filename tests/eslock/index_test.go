package eslock_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

type object = map[string]any

// An index that is missing is made with all that is asked for; one that others
// made is completed.
func TestInit(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		for name, there := range map[string]func(t *testing.T, index string){
			"missing": func(*testing.T, string) {},
			"of old clients": func(t *testing.T, index string) {
				n.oldClient(t, index, "old").acquire("old lock", time.Hour)
			},
			"empty":  func(t *testing.T, index string) { n.must(t, http.MethodPut, "/"+index, nil) },
			"strict": func(t *testing.T, index string) { n.mapped(t, index, object{"dynamic": "strict"}) },
			"more shards, dates of nanoseconds": func(t *testing.T, index string) {
				n.must(t, http.MethodPut, "/"+index, object{
					"settings": object{"number_of_shards": 3, "number_of_replicas": 0},
					"mappings": object{"properties": object{"expires": object{"type": "date_nanos"}}},
				})
			},
			"an alias": func(t *testing.T, index string) {
				n.must(t, http.MethodPut, "/"+n.newIndex(t), object{"aliases": object{index: object{}}})
			},
		} {
			t.Run(name, func(t *testing.T) {
				n := n.in(t)
				index := n.newIndex(t)
				there(t, index)
				opts := &eslock.Options{Index: index, Replicas: -1}
				s := newStore(t, n, opts)
				newStore(t, n, opts) // again
				old := n.oldClient(t, index, "old")
				ref := mustAcquire(t, s, request("r", "a"))
				mustAcquire(t, s, shared(request("s", "a"), 0))
				if old.acquire("r", time.Hour) {
					t.Error("both hold it")
				}
				var found []string
				for status, err := range s.List(t.Context(), driver.Filter{LockID: "a"}) {
					if err != nil {
						t.Fatal(err)
					}
					found = append(found, status.Resource)
				}
				if len(found) != 2 {
					t.Errorf("listed %q", found)
				}
				if _, err := s.Sweep(t.Context(), 0); err != nil {
					t.Error(err)
				}
				if name == "of old clients" {
					_ = refused(t, s, request("old lock", "a"))
				}
				mustRelease(t, s, ref, 0)
				if name == "an alias" {
					return
				}
				for _, x := range n.must(t, http.MethodGet, "/"+index, nil) {
					fields := x.(object)["mappings"].(object)["properties"].(object)
					if fields["holdfast"].(object)["dynamic"] != "false" || fields["owner"].(object)["fields"] == nil {
						t.Errorf("mapping %v", fields)
					}
				}
			})
		}
	})
}

func (n node) mapped(t testing.TB, index string, mapping object) {
	t.Helper()
	n.must(t, http.MethodPut, "/"+index, object{"mappings": mapping})
}

// What cannot keep locks is refused, with the cause.
func TestInitRefuses(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		field := func(name string, mapping object) object { return object{"properties": object{name: mapping}} }
		for name, c := range map[string]struct {
			mapping object
			says    string
		}{
			"expires is text":     {field("expires", object{"type": "text"}), "expires is mapped as text"},
			"acquired is a long":  {field("acquired", object{"type": "long"}), "acquired is mapped as long"},
			"owner is a number":   {field("owner", object{"type": "long"}), "owner is mapped as long"},
			"owner is an object":  {field("owner", object{"properties": object{"name": object{"type": "text"}}}), "owner is mapped as"},
			"expires is hidden":   {field("expires", object{"type": "date", "index": false}), "expires is not indexed"},
			"holdfast is a text":  {field("holdfast", object{"type": "text"}), "holdfast is mapped as text"},
			"holdfast is another": {field("holdfast", object{"properties": object{"time": object{"type": "keyword"}}}), "holdfast.time"},
			"holdfast is off":     {field("holdfast", object{"type": "object", "enabled": false}), "holdfast is not indexed"},
			"no source":           {object{"_source": object{"enabled": false}}, "_source.enabled"},
			"half a source":       {object{"_source": object{"excludes": []string{"holdfast"}}}, "_source.excludes"},
			"routing":             {object{"_routing": object{"required": true}}, "routing"},
		} {
			t.Run(name, func(t *testing.T) {
				n := n.in(t)
				index := n.newIndex(t)
				n.mapped(t, index, c.mapping)
				err := eslock.New(n, &eslock.Options{Index: index}).Init(t.Context())
				if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), index) {
					t.Errorf("error %v; want ErrUnusable that says %q", err, c.says)
				}
			})
		}
		t.Run("an alias of two", func(t *testing.T) {
			n := n.in(t)
			index, one, two := n.newIndex(t), n.newIndex(t), n.newIndex(t)
			for _, name := range []string{one, two} {
				n.must(t, http.MethodPut, "/"+name, object{"aliases": object{index: object{}}})
			}
			err := eslock.New(n, &eslock.Options{Index: index}).Init(t.Context())
			if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "2 indices") {
				t.Errorf("error %v", err)
			}
			n.must(t, http.MethodDelete, "/"+one, nil)
			n.must(t, http.MethodDelete, "/"+two, nil)
		})
	})
}

// What happens to an index while it is in use is an error that says how to mend
// it, and nothing is granted.
func TestIndexInTrouble(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		for name, c := range map[string]struct {
			trouble, mend func(t *testing.T, n node, index string)
			says          string
		}{
			"closed": {
				func(t *testing.T, n node, index string) { n.must(t, http.MethodPost, "/"+index+"/_close", nil) },
				func(t *testing.T, n node, index string) { n.must(t, http.MethodPost, "/"+index+"/_open", nil) },
				"open it",
			},
			"disk full": {
				func(t *testing.T, n node, index string) { n.block(t, index, "read_only_allow_delete", true) },
				func(t *testing.T, n node, index string) { n.block(t, index, "read_only_allow_delete", nil) },
				"free space",
			},
			"read-only": {
				func(t *testing.T, n node, index string) { n.block(t, index, "write", true) },
				func(t *testing.T, n node, index string) { n.block(t, index, "write", nil) },
				"index.blocks",
			},
		} {
			t.Run(name, func(t *testing.T) {
				n := n.in(t)
				index := n.newIndex(t)
				s := newStore(t, n, &eslock.Options{Index: index, Replicas: -1})
				ref := mustAcquire(t, s, request("r", "a"))
				c.trouble(t, n, index)
				for what, err := range tryAll(t, s, ref) {
					if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), index) || !strings.Contains(err.Error(), c.says) {
						t.Errorf("%s: error %v; want ErrUnusable that says %q", what, err, c.says)
					}
				}
				c.mend(t, n, index)
				_ = refused(t, s, request("r", "b"))
				mustRelease(t, s, ref, 0)
			})
		}
		t.Run("deleted", func(t *testing.T) {
			n := n.in(t)
			index := n.newIndex(t)
			s := newStore(t, n, &eslock.Options{Index: index})
			ref := mustAcquire(t, s, request("r", "a"))
			n.must(t, http.MethodDelete, "/"+index, nil)
			deleted := func() {
				t.Helper()
				for what, err := range tryAll(t, s, ref) {
					if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), index) {
						t.Errorf("%s: error %v; want ErrUnusable", what, err)
					}
				}
			}
			deleted()
			if status, _ := n.ask(t.Context(), t, http.MethodGet, "/"+index, nil); status != http.StatusNotFound {
				t.Error("a write made the index anew")
			}
			// Neither is what an old client makes in its place taken for it.
			n.oldClient(t, index, "old").acquire("other", time.Hour)
			deleted()
			if err := s.Init(t.Context()); err != nil {
				t.Fatal(err)
			}
			_ = refused(t, s, request("other", "a"))
			mustAcquire(t, s, request("r", "b"))
		})
		t.Run("too few copies", func(t *testing.T) {
			n := n.in(t)
			index := n.newIndex(t)
			newStore(t, n, &eslock.Options{Index: index, Replicas: -1})
			_, err := eslock.New(impatient{n}, &eslock.Options{Index: index, WaitForActiveShards: "2"}).Acquire(t.Context(), request("r", "a"))
			if err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUnusable) {
				t.Errorf("error %v", err)
			}
		})
	})
}

// impatient lets the server wait for nothing.
type impatient struct{ node }

func (i impatient) Perform(req *http.Request) (*http.Response, error) {
	q := req.URL.Query()
	q.Set("timeout", "10ms")
	req.URL.RawQuery = q.Encode()
	return i.node.Perform(req)
}

func (n node) block(t testing.TB, index, block string, value any) {
	t.Helper()
	n.must(t, http.MethodPut, "/"+index+"/_settings", object{"index.blocks." + block: value})
}

func tryAll(t testing.TB, s driver.Store, ref driver.HoldRef) map[string]error {
	t.Helper()
	errs := make(map[string]error)
	_, errs["acquire"] = s.Acquire(t.Context(), request("new", "a"))
	_, errs["acquire held"] = s.Acquire(t.Context(), request("r", "b"))
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
