package fence_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/fence"
)

// Invalid arguments are refused, and nothing is sent.
func TestInvalid(t *testing.T) {
	s := newServer()
	good := fence.Document{Client: s, Index: "i", ID: "1"}
	with := func(change func(*fence.Document)) fence.Document {
		d := good
		change(&d)
		return d
	}
	for name, c := range map[string]struct {
		d     fence.Document
		doc   any
		token uint64
	}{
		"no token":            {good, object{}, 0},
		"a token too large":   {good, object{}, driver.MaxToken + 1},
		"no client":           {with(func(d *fence.Document) { d.Client = nil }), object{}, 5},
		"no index":            {with(func(d *fence.Document) { d.Index = "" }), object{}, 5},
		"no ID":               {with(func(d *fence.Document) { d.ID = "" }), object{}, 5},
		"a long ID":           {with(func(d *fence.Document) { d.ID = strings.Repeat("ü", 257) }), object{}, 5},
		"an ID not in UTF-8":  {with(func(d *fence.Document) { d.ID = "a\xff" }), object{}, 5},
		"a routing not UTF-8": {with(func(d *fence.Document) { d.Routing = "\xff" }), object{}, 5},
		"an index not UTF-8":  {with(func(d *fence.Document) { d.Index = "\xff" }), object{}, 5},
		"a refresh":           {with(func(d *fence.Document) { d.Refresh = "yes" }), object{}, 5},
		"nothing":             {good, nil, 5},
		"a number":            {good, 17, 5},
		"an array":            {good, []int{1}, 5},
		"bytes":               {good, []byte(`{"a":1}`), 5},
		"a nil map":           {good, object(nil), 5},
		"no JSON":             {good, object{"a": math.NaN()}, 5},
		"broken JSON":         {good, json.RawMessage(`{"a":`), 5},
	} {
		for what, err := range map[string]error{"Put": c.d.Put(t.Context(), c.doc, c.token), "Update": c.d.Update(t.Context(), c.doc, c.token)} {
			if !errors.Is(err, holdfast.ErrInvalid) {
				t.Errorf("%s: %s: error %v", name, what, err)
			}
		}
	}
	if n := len(s.requests()); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// item is an answer about document 1.
func item(rest string) string {
	return `{"items":[{"update":{"_id":"1",` + rest + `}},{"update":{"_id":"1","result":"noop","get":{"_source":{"fence":5}}}}]}`
}

func failure(kind string) string {
	return item(`"status":400,"error":{"type":"` + kind + `","reason":"why","caused_by":{"type":"cause","reason":"deeper"}}`)
}

// The error is ErrStale only if the server returned a larger token. No fault is mistaken
// for success.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   error // nil: any error without a name
		says   string
	}{
		"stale":                 {200, item(`"result":"noop","get":{"_source":{"fence":6}}`), holdfast.ErrStale, "token 6"},
		"stale, a float":        {200, item(`"result":"noop","get":{"_source":{"fence":6.0}}`), holdfast.ErrStale, "token 6"},
		"damaged":               {200, item(`"result":"noop","get":{"_source":{"fence":"x"}}`), holdfast.ErrDamaged, "fence"},
		"damaged, huge":         {200, item(`"result":"noop","get":{"_source":{"fence":9223372036854775808}}`), holdfast.ErrDamaged, "fence"},
		"no document":           {200, failure("document_missing_exception"), fence.ErrNotFound, ""},
		"not stale":             {200, item(`"result":"noop","get":{"_source":{"fence":5}}`), nil, "does not say why"},
		"null":                  {200, item(`"result":"noop","get":{"_source":{"fence":null}}`), nil, "does not say why"},
		"a noop of another":     {200, item(`"result":"noop"`), nil, "does not say why"},
		"another document":      {200, strings.Replace(item(`"result":"updated"`), `"_id":"1"`, `"_id":"2"`, 1), nil, `"2"`},
		"another look":          {200, strings.Replace(item(`"result":"updated"`), `"_id":"1","result":"noop"`, `"_id":"2","result":"noop"`, 1), nil, `"2"`},
		"not stored":            {200, strings.Replace(item(`"result":"updated"`), `{"fence":5}`, `{}`, 1), nil, "not registered"},
		"an older one stored":   {200, strings.Replace(item(`"result":"updated"`), `{"fence":5}`, `{"fence":4}`, 1), nil, "not registered"},
		"not looked":            {200, strings.Replace(item(`"result":"updated"`), `"get":{"_source":{"fence":5}}`, `"error":{"type":"x","reason":"why"}`, 1), nil, "not known"},
		"deleted before a look": {200, strings.Replace(item(`"result":"updated"`), `"get":{"_source":{"fence":5}}`, `"error":{"type":"document_missing_exception","reason":"why"}`, 1), nil, "not known"},
		"one answer":            {200, `{"items":[{"update":{"_id":"1","result":"updated"}}]}`, nil, "2 updates got 1"},
		"another result":        {200, item(`"result":"deleted"`), nil, "deleted"},
		"three answers":         {200, `{"items":[{"update":{"_id":"1","result":"updated"}},{"update":{}},{"update":{}}]}`, nil, "2 updates got 3"},
		"another action":        {200, `{"items":[{"index":{"_id":"1","result":"updated"}}]}`, nil, "2 updates got 1"},
		"mapping":               {200, failure("strict_dynamic_mapping_exception"), nil, "strict_dynamic_mapping_exception: why: cause: deeper"},
		"compilations":          {200, failure("illegal_argument_exception"), nil, "why"},
		"no index":              {404, `{"error":{"type":"index_not_found_exception","reason":"no such index [i]"},"status":404}`, nil, "no such index"},
		"too many":              {429, `{"error":{"type":"es_rejected_execution_exception","reason":"queue"}}`, nil, "queue"},
		"red":                   {200, failure("unavailable_shards_exception"), nil, "unavailable"},
		"an error that is text": {400, `{"error":"no handler found"}`, nil, "no handler"},
		"a conflict otherwise":  {409, `{"error":{"type":"resource_already_exists_exception","reason":"x"}}`, nil, "already"},
		"a proxy":               {502, "<html>", nil, "502"},
		"a proxy that says OK":  {200, "<html>", nil, "not from Elasticsearch"},
		"cut off":               {200, item(`"result":"updated"`)[:30], nil, "not all of it"},
		"empty":                 {200, "", nil, ""},
		"no connection":         {0, "dial tcp: connection refused", nil, "refused"},
		"the product check":     {0, "the client noticed that the server is not Elasticsearch and we do not support this unknown product", nil, "unknown product"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			s.fault = func(int) (int, string) {
				if c.body == "" {
					return c.status, " "
				}
				return c.status, c.body
			}
			d := fence.Document{Client: s, Index: "some-index", ID: "1"}
			for what, err := range map[string]error{
				"Put": d.Put(t.Context(), object{}, 5), "Update": d.Update(t.Context(), object{}, 5), "Claim": d.Claim(t.Context(), 5),
			} {
				if err == nil || !strings.Contains(err.Error(), "some-index") || !strings.Contains(err.Error(), c.says) {
					t.Errorf("%s: error %v", what, err)
				}
				for _, named := range []error{holdfast.ErrStale, holdfast.ErrDamaged, holdfast.ErrInvalid, fence.ErrNotFound} {
					if errors.Is(err, named) != errors.Is(c.want, named) {
						t.Errorf("%s: error %v, want %v", what, err, c.want)
					}
				}
			}
			if n := len(s.requests()); n != 3 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

// A conflict is retried a bounded number of times.
func TestConflict(t *testing.T) {
	s := newServer()
	d := fence.Document{Client: s, Index: "i", ID: "1"}
	s.fault = func(n int) (int, string) {
		if n < 3 {
			return 200, failure("version_conflict_engine_exception")
		}
		return 200, ""
	}
	if err := d.Put(t.Context(), object{"n": 1}, 5); err != nil || len(s.requests()) != 3 {
		t.Errorf("error %v after %d requests", err, len(s.requests()))
	}
	s.fault = func(int) (int, string) { return 200, failure("version_conflict_engine_exception") }
	err := d.Put(t.Context(), object{"n": 2}, 5)
	if err == nil || errors.Is(err, holdfast.ErrStale) {
		t.Errorf("error %v", err)
	}
	if n := len(s.requests()) - 3; n != 8 {
		t.Errorf("%d requests", n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.fault = func(int) (int, string) {
		cancel()
		return 200, failure("version_conflict_engine_exception")
	}
	if err := d.Put(ctx, object{"n": 2}, 5); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// Only an answer about the document of the request counts as success or as stale.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{
		item(`"result":"updated","status":200`), item(`"result":"noop","get":{"_source":{"fence":6}}`), item(`"result":"noop","get":{"_source":{"fence":1e400}}`),
		failure("document_missing_exception"), failure("strict_dynamic_mapping_exception"), `{"error":"x"}`, `{"error":{"caused_by":{}}}`, `{"items":[{}]}`, "null", "<html>",
	} {
		f.Add(text, 200)
		f.Add(text, 404)
	}
	f.Fuzz(func(t *testing.T, text string, status int) {
		if status < 100 || status > 999 {
			return
		}
		s := newServer()
		s.fault = func(int) (int, string) { return status, text + " " }
		err := fence.Document{Client: s, Index: "i", ID: "1"}.Put(t.Context(), object{}, 5)
		if (err == nil || errors.Is(err, holdfast.ErrStale)) && (status/100 != 2 || !strings.Contains(text, "1")) {
			t.Errorf("status %d with %q: error %v", status, text, err)
		}
	})
}
