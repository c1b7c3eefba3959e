package eslock

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock/internal/rest"
)

func explained(kind, reason string) string {
	return `{"error":{"root_cause":[],"type":"` + kind + `","reason":"` + reason + `"},"status":400}`
}

// No fault of a server, a proxy or a client is mistaken for held, lost or done.
func TestFaults(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		lasting bool
		says    string
	}{
		"too many requests":     {429, explained("es_rejected_execution_exception", "queue full"), false, "queue full"},
		"circuit breaker":       {429, explained("circuit_breaking_exception", "Data too large"), false, "Data too large"},
		"red index":             {503, explained("unavailable_shards_exception", "primary shard is not active"), false, "primary shard"},
		"no master":             {503, explained(blocked, "blocked by: [SERVICE_UNAVAILABLE/2/no master];"), false, "no master"},
		"disk full":             {429, explained(blocked, "index [i] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark, index has read-only-allow-delete block];"), false, "free space"},
		"disk full, older":      {403, explained(blocked, "blocked by: [FORBIDDEN/12/index read-only / allow delete (api)];"), false, "free space"},
		"read-only":             {403, explained(blocked, "blocked by: [FORBIDDEN/5/index read-only (api)];"), true, "index.blocks"},
		"closed":                {400, explained(indexClosed, "closed"), true, "/some-locks/_open"},
		"no index":              {404, explained(indexMissing, "no such index"), true, ""},
		"password":              {401, explained("security_exception", "unable to authenticate user [u] for REST request [/_bulk]"), false, "password"},
		"password, plain":       {401, "Unauthorized", false, "password"},
		"no password":           {401, explained("security_exception", "missing authentication credentials for REST request [/_bulk]"), true, "password"},
		"right":                 {403, explained("security_exception", "action [a] is unauthorized for user [u] with effective roles [r] on indices [i], this action is granted by the index privileges [all]"), true, "right"},
		"right of a key":        {403, explained("security_exception", "action [a] is unauthorized for API key id [k] of user [u] on indices [i]"), true, "right"},
		"right, OpenSearch":     {403, explained("security_exception", "no permissions for [a] and User [name=u, backend_roles=[], requestedTenant=null]"), true, "right"},
		"roles not found":       {403, explained("security_exception", "action [a] is unauthorized for user [u] with effective roles [] (assigned roles [r] were not found) on indices [i]"), false, "right"},
		"roles not told":        {403, explained("security_exception", "action [a] is unauthorized for user [u]"), false, "right"},
		"right, by a proxy":     {403, "<html>Forbidden</html>", false, "right"},
		"security, OpenSearch":  {503, "OpenSearch Security not initialized.", false, "503"},
		"no scripts":            {400, explained("illegal_argument_exception", "cannot execute [inline] scripts"), true, "Painless"},
		"mapping":               {400, explained("mapper_parsing_exception", "failed to parse field"), true, "mapping"},
		"strict mapping":        {400, explained("strict_dynamic_mapping_exception", "not allowed"), true, "mapping"},
		"proxy":                 {502, "<html>Bad Gateway</html>", false, "text/html"},
		"proxy that says OK":    {200, "<html>Welcome</html>", false, "text/html"},
		"missing, by a proxy":   {404, "<html>Not Found</html>", false, "text/html"},
		"missing, by another":   {404, `{"message":"no Route matched"}`, false, "404"},
		"missing, odd":          {404, `{"error":"document_missing_exception"}`, false, "document_missing_exception"},
		"error as text":         {400, `{"error":"no handler found"}`, false, "no handler"},
		"empty":                 {200, "", false, ""},
		"null":                  {200, "null", false, ""},
		"nothing":               {200, "{}", false, ""},
		"an array":              {200, "[]", false, ""},
		"a text":                {200, `"OK"`, false, ""},
		"cut off":               {200, reply(updated, held("a"), "")[:120], false, ""},
		"of other requests":     {200, `{"items":[]}`, false, ""},
		"of another action":     {200, strings.Replace(reply(updated, held("a"), ""), `"update"`, `"index"`, 1), false, ""},
		"no content":            {204, "", false, ""},
		"redirect":              {302, "", false, "302"},
		"connection":            {0, "dial tcp: connection refused", false, "refused"},
		"product check":         {0, "the client noticed that the server is not Elasticsearch and we do not support this unknown product", false, "unknown product"},
		"status of an item":     {200, strings.Replace(reply(updated, held("a"), ""), `"status":200`, `"status":500`, 1), false, ""},
		"no status of an item":  {200, strings.Replace(reply(updated, held("a"), ""), `"status":200,`, "", 1), false, ""},
		"of another document":   {200, strings.Replace(reply(updated, held("a"), ""), `"_id":"r"`, `"_id":"q"`, 1), false, ""},
		"unknown result":        {200, reply("renewed", held("a"), ""), false, ""},
		"without document":      {200, bulk(`{"_id":"r","status":200,"result":"updated"}`), false, ""},
		"token too large":       {200, strings.Replace(reply(noop, "", ""), `"token":`, `"token":9999`, 1), false, ""},
		"as it was stored once": {200, strings.Replace(reply(noop, held("a"), ""), `,"unstored":true`, "", 1), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(always(c.status, c.body), &Options{Index: "some-locks"})
			for what, err := range everything(t, s) {
				if what == "init" && name == "no index" {
					continue // Init then creates it
				}
				if err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrDamaged) {
					t.Errorf("%s: error %v", what, err)
					continue
				}
				lasting := c.lasting || what == "init" && name == "product check"
				if errors.Is(err, driver.ErrUnusable) != lasting {
					t.Errorf("%s: error %v; is ErrUnusable: %v", what, err, !lasting)
				}
				if !strings.Contains(err.Error(), "some-locks") || !strings.Contains(err.Error(), c.says) && !strings.HasPrefix(what, "list") {
					t.Errorf("%s: error %q does not name the index, or say %q", what, err, c.says)
				}
				namesOnce(t, what, err)
			}
		})
	}
}

// quoted is the text that Elasticsearch appends to a reason.
const quoted = ", request: [BulkShardRequest [[i][0]] containing [update {[i][_doc][r], script[Script{idOrCode='void must(}]}]]"

// The same is true for faults that a server reports for one update.
func TestFaultsOfItems(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		kind, reason string
		lasting      bool
	}{
		"too many requests":   {429, "es_rejected_execution_exception", "queue full", false},
		"red index":           {503, "unavailable_shards_exception", "primary shard is not active", false},
		"request appended":    {503, "unavailable_shards_exception", "shard is not active. Timeout: [10s]" + quoted, false},
		"disk full":           {429, blocked, "blocked by: [TOO_MANY_REQUESTS/12/disk usage];", false},
		"read-only":           {403, blocked, "blocked by: [FORBIDDEN/5/index read-only (api)];", true},
		"closed":              {400, indexClosed, "closed", true},
		"no index":            {404, indexMissing, "no such index", true},
		"right":               {403, "security_exception", "no permissions for [a] and User [name=u]", true},
		"right, or no roles":  {403, "security_exception", "action is unauthorized", false},
		"no scripts":          {400, "illegal_argument_exception", "cannot execute [inline] scripts", true},
		"mapping":             {400, "document_parsing_exception", "failed to parse field", true},
		"missing, odd status": {400, rest.DocumentMissing, "missing", false},
		"another error":       {500, "null_pointer_exception", "null", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := New(&fake{answer: func(_ int, r sent) (int, string) {
				return 200, each(r, func(id string) string { return failed(id, c.status, c.kind, c.reason) })
			}}, &Options{Index: "some-locks"})
			for what, err := range everything(t, s) {
				if what == "list" || what == "sweep" || what == "init" {
					continue // they begin with other requests
				}
				if err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrLost) || errors.Is(err, driver.ErrDamaged) ||
					errors.Is(err, driver.ErrUnusable) != c.lasting || !strings.Contains(err.Error(), strings.TrimSuffix(c.reason, quoted)) || strings.Contains(err.Error(), quoted) {
					t.Errorf("%s: error %v", what, err)
				}
				namesOnce(t, what, err)
			}
		})
	}
}

// The errors of Init name the index once, also if the user has no right to create it.
func TestIndexMayNotBeMade(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		lasting bool
		says    string
	}{
		"no right":        {403, explained("security_exception", "no permissions for [a] and User [name=u]"), true, "no right to create it"},
		"no roles":        {403, explained("security_exception", "action is unauthorized"), false, "looked up"},
		"not as it must":  {400, explained("illegal_argument_exception", "unknown setting"), true, "unknown setting"},
		"too many shards": {400, explained("validation_exception", "this action would add [2] shards, but this cluster currently has [1000]/[1000] maximum normal shards open"), false, "maximum"},
	} {
		t.Run(name, func(t *testing.T) {
			err := New(&fake{answer: func(_ int, r sent) (int, string) {
				if r.Method == http.MethodGet {
					return 404, explained(indexMissing, "no such index")
				}
				return c.status, c.body
			}}, &Options{Index: "some-locks"}).Init(t.Context())
			if errors.Is(err, driver.ErrUnusable) != c.lasting || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("error %v; want ErrUnusable: %v, and %q", err, c.lasting, c.says)
			}
			namesOnce(t, "init", err)
		})
	}
}

// namesOnce checks that each of the errors names the index once, and says once that
// it is unusable.
func namesOnce(t *testing.T, what string, err error) {
	t.Helper()
	for text := range strings.SplitSeq(err.Error(), "\n") {
		if strings.Count(text, "index some-locks:") != 1 || strings.Count(text, driver.ErrUnusable.Error()) > 1 {
			t.Errorf("%s: error %q names the index or ErrUnusable twice", what, text)
		}
	}
}

// The outcome of a conflict that does not end is unknown, after a bounded number of tries.
// The tries after the first leave the server to other clients.
func TestConflicts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := bulk(failed("r", 409, rest.Conflict, "current version differs"))
		f := always(200, refused)
		began := time.Now()
		_, err := New(f, nil).Acquire(t.Context(), request("r", "a"))
		if !rest.IsConflict(err) || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUnusable) {
			t.Errorf("error %v", err)
		}
		requests := f.requests()
		if took := time.Since(began); len(requests) != maxTries || took > 20*time.Second {
			t.Errorf("%d requests in %v, want %d", len(requests), took, maxTries)
		}
		for i, r := range requests {
			if want := []string{":5", ":1"}[min(i, 1)]; !strings.Contains(r.Body, `"retry_on_conflict"`+want) {
				t.Errorf("try %d: %s, want %s", i, r.Body, want)
			}
		}
		f = &fake{answer: func(n int, _ sent) (int, string) {
			if n < 3 {
				return 200, refused
			}
			return 200, reply(updated, held("a"), "")
		}}
		if g, err := New(f, nil).Acquire(t.Context(), request("r", "a")); err != nil || g.Token != token || g.Left != time.Hour {
			t.Errorf("%+v, %v", g, err)
		}
	})
}

// In a batch only items with a conflict are sent again, and each item has its own
// outcome.
func TestBatch(t *testing.T) {
	of := func(id, item string) string { return strings.Replace(item, `"_id":"r"`, `"_id":"`+id+`"`, 1) }
	f := &fake{answer: func(n int, r sent) (int, string) {
		if n == 1 {
			return 200, bulk(
				itemOf(updated, held("a"), ""),
				failed("gone", 404, rest.DocumentMissing, "x"),
				failed("busy", 409, rest.Conflict, "x"),
				failed("red", 503, "unavailable_shards_exception", "x"),
				of("other", itemOf(noop, held("b"), "")),
				of("bad", itemOf(noop, "", `,"damage":"expires is missing or wrong"`)),
			)
		}
		return 200, bulk(of("busy", itemOf(updated, held("a"), "")))
	}}
	var qs []driver.RenewRequest
	for _, name := range []string{"r", "gone", "busy", "red", "other", "bad"} {
		qs = append(qs, driver.RenewRequest{HoldRef: ref(name, "a"), TTL: time.Hour})
	}
	rs, err := New(f, nil).Renew(t.Context(), qs)
	if err != nil || len(rs) != len(qs) {
		t.Fatal(rs, err)
	}
	for i, want := range []error{nil, driver.ErrLost, nil, nil, driver.ErrLost, driver.ErrDamaged} {
		switch {
		case qs[i].Resource == "red":
			if rs[i].Err == nil || errors.Is(rs[i].Err, driver.ErrLost) || errors.Is(rs[i].Err, driver.ErrUnusable) {
				t.Errorf("red: %v", rs[i].Err)
			}
		case want == nil && rs[i] != (driver.RenewResult{Left: time.Hour}), want != nil && !errors.Is(rs[i].Err, want):
			t.Errorf("%s: %+v, want %v", qs[i].Resource, rs[i], want)
		}
	}
	if sent := f.requests(); len(sent) != 2 || strings.Contains(sent[1].Body, `"other"`) {
		t.Errorf("sent %+v", sent)
	}
}

// The outcome of an interrupted or missing answer is unknown. A call without an answer
// ends with its context.
func TestBrokenAnswers(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || strings.Contains(string(body), "hang") {
			<-hang
			return
		}
		w.Header().Set("Content-Length", "10000")
		_, _ = w.Write([]byte(reply(updated, held("a"), "")))
	}))
	defer server.Close()
	defer close(hang)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	s := New(performer(func(req *http.Request) (*http.Response, error) {
		req.URL.Scheme, req.URL.Host = base.Scheme, base.Host
		return server.Client().Do(req)
	}), nil)
	_, err = s.Acquire(t.Context(), request("r", "a"))
	if err == nil || !strings.Contains(err.Error(), base.Host) || errors.Is(err, driver.ErrUnusable) {
		t.Errorf("cut off: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err = s.Acquire(ctx, request("hang", "a")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("hanging: %v", err)
	}
}

type performer func(*http.Request) (*http.Response, error)

func (p performer) Perform(req *http.Request) (*http.Response, error) { return p(req) }

// Init explains the error of a client that refuses the other product.
func TestProductCheck(t *testing.T) {
	f := always(0, "the client noticed that the server is not Elasticsearch and we do not support this unknown product")
	if err := New(f, nil).Init(t.Context()); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "OpenSearch's client") {
		t.Error(err)
	}
}
