package eslock_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
)

type object = map[string]any

// A missing index is created with all requested settings. An existing one is completed.
func TestInit(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		for name, there := range map[string]func(t *testing.T, index string){
			"missing": func(*testing.T, string) {},
			"of old clients": func(t *testing.T, index string) {
				n.oldClient(t, index, "old").acquire("old lock", time.Hour)
			},
			"empty":  func(t *testing.T, index string) { n.Must(t, http.MethodPut, "/"+index, nil) },
			"strict": func(t *testing.T, index string) { n.mapped(t, index, object{"dynamic": "strict"}) },
			"more shards, dates of nanoseconds": func(t *testing.T, index string) {
				n.Must(t, http.MethodPut, "/"+index, object{
					"settings": object{"number_of_shards": 3, "number_of_replicas": 0},
					"mappings": object{"properties": object{"expires": object{"type": "date_nanos"}}},
				})
			},
			"an alias": func(t *testing.T, index string) {
				n.Must(t, http.MethodPut, "/"+n.Index(t), object{"aliases": object{index: object{}}})
			},
		} {
			t.Run(name, func(t *testing.T) {
				n := n.in(t)
				index := n.Index(t)
				there(t, index)
				opts := &eslock.Options{Index: index, Replicas: -1}
				s := newStore(t, n, opts)
				newStore(t, n, opts) // again
				old := n.oldClient(t, index, "old")
				ref := ask.Granted(t, s, ask.Request("r", "a"))
				ask.Granted(t, s, ask.Shared(ask.Request("s", "a"), 0))
				endless := ask.Request("endless", "a")
				endless.TTL = driver.Forever
				ask.Released(t, s, ask.Granted(t, s, endless), 0)
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
				if _, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil {
					t.Error(err)
				}
				if name == "of old clients" {
					_ = ask.Refused(t, s, ask.Request("old lock", "a"))
				}
				ask.Released(t, s, ref, 0)
				if name == "an alias" {
					return
				}
				for _, x := range n.Must(t, http.MethodGet, "/"+index, nil) {
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
	n.Must(t, http.MethodPut, "/"+index, object{"mappings": mapping})
}

// An index that is unfit for locks is refused, with the cause.
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
				index := n.Index(t)
				n.mapped(t, index, c.mapping)
				err := eslock.New(n, &eslock.Options{Index: index}).Init(t.Context())
				if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), index) {
					t.Errorf("error %v; want ErrUnusable that says %q", err, c.says)
				}
			})
		}
		t.Run("an alias of two", func(t *testing.T) {
			n := n.in(t)
			index, one, two := n.Index(t), n.Index(t), n.Index(t)
			for _, name := range []string{one, two} {
				n.Must(t, http.MethodPut, "/"+name, object{"aliases": object{index: object{}}})
			}
			err := eslock.New(n, &eslock.Options{Index: index}).Init(t.Context())
			if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "2 indices") {
				t.Errorf("error %v", err)
			}
			n.Must(t, http.MethodDelete, "/"+one, nil)
			n.Must(t, http.MethodDelete, "/"+two, nil)
		})
	})
}

// An index that writes its translog later is accepted, but promises less.
func TestInitOnAsyncTranslog(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		for _, durability := range []string{"async", "ASYNC", "request"} {
			index := n.Index(t)
			n.Must(t, http.MethodPut, "/"+index, object{"settings": object{"index.translog.durability": durability}})
			s := newStore(t, n, &eslock.Options{Index: index})
			ref := ask.Granted(t, s, ask.Request("r", "a"))
			_ = ask.Refused(t, s, ask.Request("r", "b"))
			ask.Released(t, s, ref, 0)
			want := eslock.Traits()
			if durability != "request" {
				want.Durable, want.Fencing = false, driver.FencingClock
			}
			if got := s.Traits(); got != want {
				t.Errorf("%s: %+v, want %+v", durability, got, want)
			}
		}
	})
}

// An index that Init creates gets the settings of the user's index template, and is then
// checked like an existing one.
func TestTemplates(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.template(t, object{"settings": object{"index.translog.durability": "async"}})
		if got := newStore(t, n, &eslock.Options{Index: index}).Traits(); got.Durable || got.Fencing != driver.FencingClock {
			t.Errorf("async: %+v", got)
		}
		for says, template := range map[string]object{
			"_source.enabled": {"mappings": object{"_source": object{"enabled": false}}},
			"routing":         {"mappings": object{"_routing": object{"required": true}}},
		} {
			err := eslock.New(n, &eslock.Options{Index: n.template(t, template)}).Init(t.Context())
			if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), says) {
				t.Errorf("error %v; want ErrUnusable that says %q", err, says)
			}
		}
	})
}

// template creates an index template for an index that does not exist yet.
func (n node) template(t *testing.T, template object) (index string) {
	t.Helper()
	index = n.Index(t)
	n.Must(t, http.MethodPut, "/_index_template/"+index, object{"index_patterns": []string{index}, "template": template})
	t.Cleanup(func() {
		n.Ask(context.WithoutCancel(t.Context()), t, http.MethodDelete, "/_index_template/"+index, nil)
	})
	return index
}
