package eslock

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

// If programs with es-distributed-lock use the index, names by which they lock another
// document are refused. The error has the name to use instead.
func TestNamesOfOldClients(t *testing.T) {
	for name, says := range map[string]string{"a%2Fb": `use "a/b" here`, "a#b": `use "a" here`, "a?b": "question mark", "a/": `use "a" here; they lock the document "a/" by the ID "a%2F", and to use that, leave out OldClients, or old_clients in the URL`} {
		f := always(200, reply(updated, held("a"), ""))
		_, err := New(f, &Options{OldClients: true}).Acquire(t.Context(), request(name, "a"))
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), says) || len(f.requests()) != 0 {
			t.Errorf("%q: error %v after %d requests", name, err, len(f.requests()))
		}
		if _, err := New(always(503, explained("unavailable_shards_exception", "x")), nil).Acquire(t.Context(), request(name, "a")); errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%q, without old clients: %v", name, err)
		}
	}
}

// Each operation sends one request, which waits for no refresh and creates no index.
func TestOneRequest(t *testing.T) {
	f := always(200, reply(updated, held("a"), ""))
	s := New(f, &Options{Index: "locks", WaitForActiveShards: "all"})
	if _, err := s.Acquire(t.Context(), request("r", "a")); err != nil {
		t.Fatal(err)
	}
	if rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref("r", "a"), TTL: time.Hour}}); err != nil || rs[0].Err != nil {
		t.Fatal(rs, err)
	}
	if rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref("r", "a")}}); err != nil || !rs[0].Found {
		t.Fatal(rs, err)
	}
	sent := f.requests()
	if len(sent) != 3 {
		t.Fatalf("%d requests", len(sent))
	}
	for _, r := range sent {
		v, err := url.ParseQuery(r.Query)
		if err != nil || r.Method != http.MethodPost || r.Path != "/locks-holdfast/_bulk" || v.Has("refresh") || v.Get("require_alias") != "true" ||
			v.Get("wait_for_active_shards") != "all" || !strings.Contains(r.Body, `"retry_on_conflict":5`) {
			t.Errorf("%+v", r)
		}
	}
	if len(sent[0].Body) > 7900 {
		t.Errorf("an acquire sends %d bytes", len(sent[0].Body))
	}
}

// A large batch is sent in parts.
func TestLargeBatch(t *testing.T) {
	f := always(503, explained("unavailable_shards_exception", "x"))
	qs := make([]driver.ReleaseRequest, 2*chunk+1)
	for i := range qs {
		qs[i].HoldRef = ref(fmt.Sprint("r", i%7), fmt.Sprint(i))
	}
	rs, err := New(f, nil).Release(t.Context(), qs)
	if err != nil || len(rs) != len(qs) || rs[len(rs)-1].Err == nil {
		t.Fatal(len(rs), err)
	}
	if n := len(f.requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
	for i, r := range f.requests()[:2] {
		if n := strings.Count(r.Body, `"_id"`); n != 7 {
			t.Errorf("request %d: %d updates of 7 documents", i, n)
		}
	}
}

// A request that is too large for a proxy is sent in parts, and so are all later ones:
// for many documents and for many holds of one.
func TestTooLarge(t *testing.T) {
	t.Run("documents", func(t *testing.T) {
		tooLarge(t, 1<<20, func(i int) driver.HoldRef { return ref(fmt.Sprint("r", i), "a") })
	})
	t.Run("holds", func(t *testing.T) {
		tooLarge(t, 40<<10, func(i int) driver.HoldRef { return ref("r", fmt.Sprintf("%0100d", i)) })
	})
	s := New(always(413, "<html>Request Entity Too Large</html>"), nil)
	if _, err := s.Acquire(t.Context(), request("r", "a")); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "raise its limit") {
		t.Error(err)
	}
}

func tooLarge(t *testing.T, limit int, of func(i int) driver.HoldRef) {
	f := &fake{answer: func(_ int, r sent) (int, string) {
		if len(r.Body) > limit {
			return 413, "<html>Request Entity Too Large</html>"
		}
		return 503, explained("unavailable_shards_exception", "x")
	}}
	qs := make([]driver.RenewRequest, chunk)
	for i := range qs {
		qs[i] = driver.RenewRequest{HoldRef: of(i), TTL: time.Hour}
	}
	s := New(f, nil)
	for _, want := range []int{3 + 4, 4} { // 500, 250 and 250 are too many
		before := len(f.requests())
		rs, err := s.Renew(t.Context(), qs)
		if err != nil || len(rs) != len(qs) {
			t.Fatal(len(rs), err)
		}
		for i, r := range rs {
			if r.Err == nil || !strings.Contains(r.Err.Error(), "unavailable_shards") {
				t.Errorf("renewal %d: %v", i, r.Err)
			}
		}
		if n := len(f.requests()) - before; n != want {
			t.Errorf("%d requests, want %d", n, want)
		}
	}
}

// If the answer to a list is too long, the list is requested in parts.
func TestLongAnswer(t *testing.T) {
	f := &fake{answer: func(_ int, r sent) (int, string) {
		switch {
		case strings.HasSuffix(r.Path, "/_search"):
			return 200, `{"_scroll_id":"x","_shards":{"failed":0},"hits":{"total":{"value":4},"hits":[{"_id":"a"},{"_id":"b"},{"_id":"c"},{"_id":"d"}]}}`
		case strings.Count(r.Body, `"_id"`) > 2:
			return 200, strings.Repeat(" ", rest.MaxAnswer+1)
		case strings.HasSuffix(r.Path, "/_bulk"):
			return 200, each(r, func(id string) string {
				return strings.Replace(itemOf(noop, held(id), ""), `"_id":"r"`, `"_id":"`+id+`"`, 1)
			})
		}
		return 200, `{}`
	}}
	s := New(f, nil)
	var found []string
	for status, err := range s.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, status.Resource)
	}
	if strings.Join(found, "") != "abcd" {
		t.Errorf("listed %q", found)
	}
	if most := s.most.Load(); most != 2 {
		t.Errorf("later requests have up to %d updates", most)
	}
}

// A page of a list whose answer was lost cannot be requested again: the same request
// returns the next page.
func TestLostPage(t *testing.T) {
	f := &fake{answer: func(_ int, r sent) (int, string) {
		switch {
		case strings.HasSuffix(r.Path, "/_search"):
			return 200, `{"_scroll_id":"x","_shards":{"failed":0},"hits":{"total":{"value":3},"hits":[{"_id":"r"}]}}`
		case strings.HasSuffix(r.Path, "/scroll"):
			return 200, `{"_scroll_id":"x","_shards":{"failed":0},"hits":{"total":{"value":3},"hits":[]}}`
		case strings.HasSuffix(r.Path, "/_bulk"):
			return 200, reply(noop, held("a"), "")
		}
		return 200, `{}`
	}}
	var found []string
	var last error
	for status, err := range New(f, nil).List(t.Context(), driver.Filter{}) {
		if last = err; err == nil {
			found = append(found, status.Resource)
		}
	}
	if len(found) != 1 || last == nil || !strings.Contains(last.Error(), "did not see all") {
		t.Errorf("listed %q, error %v", found, last)
	}
}

// If a refresh did not reach all shards, a list may be incomplete.
func TestPartOfRefresh(t *testing.T) {
	f := &fake{answer: func(_ int, r sent) (int, string) {
		switch {
		case strings.HasSuffix(r.Path, "/_refresh"):
			return 200, `{"_shards":{"total":2,"successful":1,"failed":1}}`
		case strings.HasSuffix(r.Path, "/_search"):
			return 200, `{"_shards":{"failed":0},"hits":{"total":{"value":0},"hits":[]}}`
		}
		return 200, reply(noop, "", "")
	}}
	var last error
	for _, last = range New(f, nil).List(t.Context(), driver.Filter{}) {
		break
	}
	if last == nil || !strings.Contains(last.Error(), "did not see all") {
		t.Errorf("error %v", last)
	}
}

// One request sweeps all idle documents.
func TestSweepRequests(t *testing.T) {
	f := &fake{answer: func(_ int, r sent) (int, string) {
		switch {
		case strings.HasSuffix(r.Path, "/_delete_by_query"):
			return 200, `{"deleted":100000}`
		case strings.HasSuffix(r.Path, "/_search"):
			return 200, `{"_shards":{"failed":0},"hits":{"total":{"value":0},"hits":[]}}`
		}
		return 200, `{}`
	}}
	got, err := New(f, nil).Sweep(t.Context(), driver.SweepRequest{Idle: 1500 * time.Millisecond})
	if err != nil || got != (driver.SweepResult{Records: 100000}) {
		t.Errorf("%+v, %v", got, err)
	}
	sent := f.requests()
	if len(sent) > 5 || !strings.Contains(sent[1].Body, `"now-2s"`) || strings.Contains(sent[1].Query, "max_docs") {
		t.Errorf("%+v", sent)
	}
	got, err = New(f, nil).Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour, Most: 100000})
	if err != nil || !got.More {
		t.Errorf("%+v, %v", got, err)
	}
	if last := f.requests(); len(last) != len(sent)+2 || !strings.Contains(last[len(last)-1].Query, "max_docs=100000") {
		t.Errorf("%+v", last)
	}
	for name, answer := range map[string]string{
		"nothing": `{}`, "a failure": `{"deleted":1,"failures":[{"status":503}]}`, "half of it": `{"deleted":1,"timed_out":true}`,
	} {
		if _, err := New(always(200, answer), nil).Sweep(t.Context(), driver.SweepRequest{}); err == nil || errors.Is(err, driver.ErrUnusable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{Index: "Locks"}, {Index: "-x"}, {Index: "_x"}, {Index: "+x"}, {Index: "."}, {Index: ".."}, {Index: "a/b"}, {Index: "a*"}, {Index: "a,b"},
		{Index: "a b"}, {Index: "a%b"}, {Index: "<a>"}, {Index: "a:b"}, {Index: "\xff"}, {Index: strings.Repeat("x", 247)},
		{WaitForActiveShards: "0"}, {WaitForActiveShards: "-1"}, {WaitForActiveShards: "most"}, {WaitForActiveShards: "1&refresh=true"},
	} {
		f := always(200, "{}")
		for what, err := range everything(t, New(f, &o)) {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("%+v: %s: error %v", o, what, err)
			}
		}
		if n := len(f.requests()); n != 0 {
			t.Errorf("%+v: %d requests", o, n)
		}
	}
	for _, o := range []Options{{}, {Index: "schlösser-1.a_b"}, {Index: strings.Repeat("x", 246)}, {WaitForActiveShards: "2"}, {WaitForActiveShards: "all"}} {
		if s := New(always(200, "{}"), &o); s.invalid != nil {
			t.Errorf("%+v: %v", o, s.invalid)
		}
	}
	if New(nil, nil).Traits().Fencing != driver.FencingStrict || New(nil, &Options{OldClients: true}).Traits().Fencing != driver.FencingClock {
		t.Error("want strict fencing, and fencing by the clock with OldClients")
	}
}

func TestDeadContext(t *testing.T) {
	f := always(200, "{}")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(f, nil).Init(ctx); !errors.Is(err, context.Canceled) || len(f.requests()) != 0 {
		t.Errorf("%v after %d requests", err, len(f.requests()))
	}
}

// If the text of a script changed, every server would compile it again, and a long text
// makes every request longer.
func TestCompact(t *testing.T) {
	got := compact("// a's\n\n  int  x = 1; // b\n  // c\n}\nif (x > 2) {\n  must(x, 'is // 2'  + ' {y} ');\n} else\n  return 'z' ;\n")
	if want := "int  x=1;}if(x>2){must(x,'is // 2'+' {y} ');}else\n  return 'z';"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
