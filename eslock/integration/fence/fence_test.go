package fence_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/fence"
)

// The document before, the operation with token 5, and the document after.
func TestTokens(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		n.make(t, object{})
		for i, c := range []struct {
			there             string
			want              error
			put, update, mine string // after Put {"n":2}, Update {"n":2}, Claim
		}{
			{`{"m":1,"n":1}`, nil, `{"fence":5,"n":2}`, `{"fence":5,"m":1,"n":2}`, `{"fence":5,"m":1,"n":1}`},
			{`{"n":1,"fence":null}`, nil, `{"fence":5,"n":2}`, `{"fence":5,"n":2}`, `{"fence":5,"n":1}`},
			{`{"n":1,"fence":4}`, nil, `{"fence":5,"n":2}`, `{"fence":5,"n":2}`, `{"fence":5,"n":1}`},
			{`{"n":1,"fence":4.5}`, nil, `{"fence":5,"n":2}`, `{"fence":5,"n":2}`, `{"fence":5,"n":1}`},
			{`{"n":1,"fence":5}`, nil, `{"fence":5,"n":2}`, `{"fence":5,"n":2}`, `{"fence":5,"n":1}`},
			{`{"n":1,"fence":6}`, holdfast.ErrStale, ``, ``, ``},
			{`{"n":1,"fence":6.0}`, holdfast.ErrStale, ``, ``, ``},
			{`{"n":1,"fence":9007199254740991}`, holdfast.ErrStale, ``, ``, ``},
			{`{"n":1,"fence":9223372036854775807}`, holdfast.ErrDamaged, ``, ``, ``},
			{`{"n":1,"fence":"4"}`, holdfast.ErrDamaged, ``, ``, ``},
			{`{"n":1,"fence":[4]}`, holdfast.ErrDamaged, ``, ``, ``},
		} {
			for what, do := range map[string]struct {
				write func(fence.Document) error
				then  string
			}{
				"put":    {func(d fence.Document) error { return d.Put(t.Context(), object{"n": 2, "fence": 9}, 5) }, c.put},
				"update": {func(d fence.Document) error { return d.Update(t.Context(), object{"n": 2, "fence": "x"}, 5) }, c.update},
				"claim":  {func(d fence.Document) error { return d.Claim(t.Context(), 5) }, c.mine},
			} {
				id := fmt.Sprint(what, i)
				n.put(t, id, json.RawMessage(c.there))
				then := do.then
				if c.want != nil {
					then = n.source(t, n.path(id))
				}
				for range 2 { // a repeat has the same effect
					if err := do.write(n.document(id)); !errors.Is(err, c.want) {
						t.Errorf("%s of %s: error %v, want %v", what, c.there, err, c.want)
					}
					if got := n.source(t, n.path(id)); got != then {
						t.Errorf("%s of %s makes %s, want %s", what, c.there, got, then)
					}
				}
			}
		}
	})
}

// A missing document, in a missing index.
func TestMissing(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		d := n.document("1")
		if err := d.Claim(t.Context(), 5); !errors.Is(err, fence.ErrNotFound) {
			t.Errorf("Claim: %v", err)
		}
		if err := d.Update(t.Context(), object{"n": 1}, 5); !errors.Is(err, fence.ErrNotFound) {
			t.Errorf("Update: %v", err)
		}
		for _, step := range []struct {
			token uint64
			want  error
		}{{5, nil}, {4, holdfast.ErrStale}, {driver.MaxToken, nil}, {driver.MaxToken - 1, holdfast.ErrStale}} {
			if err := d.Put(t.Context(), object{"n": 1}, step.token); !errors.Is(err, step.want) {
				t.Errorf("token %d: error %v, want %v", step.token, err, step.want)
			}
		}
		if got := n.source(t, n.path("1")); got != `{"fence":9007199254740991,"n":1}` {
			t.Errorf("the document is %s", got)
		}
		mapping, err := json.Marshal(n.Must(t, http.MethodGet, "/"+n.index+"/_mapping", nil))
		if err != nil || !strings.Contains(string(mapping), `"fence":{"type":"long"}`) {
			t.Errorf("mapping %s, %v", mapping, err)
		}
		// Deleting the document deletes its token.
		n.Must(t, http.MethodDelete, n.path("1"), nil)
		if err := d.Put(t.Context(), object{"n": 2}, 5); err != nil {
			t.Error(err)
		}
	})
}

// Values of all types arrive unchanged, and objects are merged.
func TestValues(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		n.make(t, object{"dynamic": false})
		d := n.document("1")
		whole := `{"a":{"b":{"c":1,"d":[1,{"e":2}]},"x":null},"big":9007199254740993,"esc":"<&>\u2028${x}\"\\","f":0.1,"t":true}`
		if err := d.Put(t.Context(), json.RawMessage(whole), 5); err != nil {
			t.Fatal(err)
		}
		want := object{"a": object{"b": object{"c": 1, "d": []any{1, object{"e": 2}}}, "x": nil}, "big": 9007199254740993, "esc": "<&>\u2028${x}\"\\", "f": 0.1, "t": true, "fence": 5}
		same(t, n.source(t, n.path("1")), want)
		partial := object{"a": object{"b": object{"c": nil, "n": object{"new": 1}}, "x": object{"y": 1}}, "t": []int{1}, "esc": object{"now": "an object"}}
		if err := d.Update(t.Context(), partial, 6); err != nil {
			t.Fatal(err)
		}
		want["a"] = object{"b": object{"c": nil, "d": []any{1, object{"e": 2}}, "n": object{"new": 1}}, "x": object{"y": 1}}
		want["t"], want["esc"], want["fence"] = []int{1}, object{"now": "an object"}, 6
		same(t, n.source(t, n.path("1")), want)
		if err := d.Put(t.Context(), struct{}{}, 7); err != nil {
			t.Fatal(err)
		}
		same(t, n.source(t, n.path("1")), object{"fence": 7})
	})
}

func same(t *testing.T, got string, want object) {
	t.Helper()
	text, err := json.Marshal(want)
	if err != nil || got != string(text) {
		t.Errorf("the document is %s, want %s (%v)", got, text, err)
	}
}

// Names that are difficult in a URL, and other options of a document.
func TestNames(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		n.make(t, object{})
		for _, id := range []string{"plain", "a/b", "a b?c#d", "%2F", "_source", "\"\n{\"delete\":{}}", "ü\u2028", strings.Repeat("x", 512)} {
			d := n.document(id)
			if err := d.Put(t.Context(), object{"n": 1}, 5); err != nil {
				t.Fatal(err)
			}
			if err := d.Claim(t.Context(), 4); !errors.Is(err, holdfast.ErrStale) {
				t.Errorf("%q: error %v", id, err)
			}
			if got := n.source(t, n.path(id)); got != `{"fence":5,"n":1}` {
				t.Errorf("%q: the document is %s", id, got)
			}
		}
		// With a routing, the same ID can be another document.
		d := n.document("routed")
		for _, d.Routing = range []string{"", "one", "two", "three", "a&b=c"} {
			if err := d.Put(t.Context(), object{"r": d.Routing}, 9); err != nil {
				t.Fatal(err)
			}
			if err := d.Claim(t.Context(), 8); !errors.Is(err, holdfast.ErrStale) {
				t.Errorf("routing %q: error %v", d.Routing, err)
			}
		}
		if got := n.source(t, n.path("routed")+"?routing=a%26b%3Dc"); got != `{"fence":9,"r":"a\u0026b=c"}` {
			t.Errorf("the document is %s", got)
		}
		// An alias, and searches that see the write.
		n.Must(t, http.MethodPost, "/_aliases", object{"actions": []object{{"add": object{"index": n.index, "alias": n.index + "-alias"}}}})
		d = fence.Document{Client: n, Index: n.index + "-alias", ID: "seen", Refresh: "true"}
		if err := d.Put(t.Context(), object{"text": "seen"}, 5); err != nil {
			t.Fatal(err)
		}
		found := n.Must(t, http.MethodPost, "/"+n.index+"/_count", object{"query": object{"term": object{"text": "seen"}}})
		if fmt.Sprint(found["count"]) != "1" {
			t.Errorf("found %v", found)
		}
	})
}

// If the server cannot do the update, the error has no name, and nothing changes.
func TestRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		n.make(t, object{"dynamic": "strict", "properties": object{"n": object{"type": "long"}}})
		unnamed := func(err error, says string) {
			t.Helper()
			if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, holdfast.ErrStale) || errors.Is(err, holdfast.ErrDamaged) ||
				errors.Is(err, holdfast.ErrInvalid) || errors.Is(err, fence.ErrNotFound) {
				t.Errorf("error %v", err)
			}
		}
		d := n.document("1")
		unnamed(d.Put(t.Context(), object{"n": 1}, 5), "strict")
		n.Must(t, http.MethodPut, "/"+n.index+"/_mapping", object{"properties": object{"fence": object{"type": "long"}}})
		if err := d.Put(t.Context(), object{"n": 1}, 5); err != nil {
			t.Fatal(err)
		}
		unnamed(d.Put(t.Context(), object{"n": "x"}, 6), "n")
		n.Must(t, http.MethodPut, "/"+n.index+"/_settings", object{"index.blocks.write": true})
		unnamed(d.Put(t.Context(), object{"n": 2}, 6), "block")
		n.Must(t, http.MethodPut, "/"+n.index+"/_settings", object{"index.blocks.write": nil})
		n.Must(t, http.MethodPost, "/"+n.index+"/_close", nil)
		unnamed(d.Claim(t.Context(), 6), "closed")
		n.Must(t, http.MethodPost, "/"+n.index+"/_open?wait_for_active_shards=1", nil)
		d.Index = strings.ToUpper(n.index)
		unnamed(d.Put(t.Context(), object{"n": 2}, 6), "lowercase")
		d.Index = n.index + "*"
		unnamed(d.Put(t.Context(), object{"n": 2}, 6), "")
		if got := n.source(t, n.path("1")); got != `{"fence":5,"n":1}` {
			t.Errorf("the document is %s", got)
		}
	})
}
