package engines_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/tests/engines"
	"github.com/holdfast-go/holdfast/tests/internal/thorough"
)

// What is tested here are properties of a node that stores build upon.

// update is the reply to an update.
type update struct {
	Result string
	SeqNo  *int64 `json:"_seq_no"`
	Get    struct {
		Found  bool
		Source map[string]any `json:"_source"`
	}
	Error struct{ Type string }
}

// call sends a request and reads the reply into it.
func call(t *testing.T, method, url string, body, reply any) (status int) {
	t.Helper()
	var content io.Reader
	if body != nil {
		text, ok := body.(string) // of lines, for _bulk
		if !ok {
			j, err := json.Marshal(body)
			if err != nil {
				t.Fatal(err)
			}
			text = string(j)
		}
		content = strings.NewReader(text)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, content)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	// A connection that is kept would be a goroutine that outlives the test.
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if reply != nil {
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(reply); err != nil {
			t.Fatalf("%s %s: %v in %s", method, url, err, text)
		}
	}
	return response.StatusCode
}

// locksIndex makes an index of one shard and returns its URL.
func locksIndex(t *testing.T, e engines.Engine) string {
	t.Helper()
	url := e.URL + "/" + engines.SearchIndex(t, e)
	settings := map[string]any{"settings": map[string]any{"number_of_shards": 1, "number_of_replicas": 0}}
	if status := call(t, http.MethodPut, url, settings, nil); status != http.StatusOK {
		t.Fatalf("making the index: status %d", status)
	}
	return url
}

// scripted is an update by a script that makes the document if there is none.
func scripted(source string, params map[string]any) map[string]any {
	script := map[string]any{"lang": "painless", "source": source}
	if params != nil { // null is refused
		script["params"] = params
	}
	return map[string]any{"scripted_upsert": true, "upsert": map[string]any{}, "script": script}
}

func TestScriptedUpsert(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		index := locksIndex(t, e)
		const take = `
			if (ctx._source.owner == null) {
				ctx._source.owner = params.owner;
				ctx._source.at = System.currentTimeMillis();
			} else {
				ctx.op = 'none';
			}`
		for i, want := range []struct {
			status int
			result string
			owner  string
		}{{http.StatusCreated, "created", "$x"}, {http.StatusOK, "noop", "$x"}} {
			var got update
			status := call(t, http.MethodPost, index+"/_update/r?_source=true&retry_on_conflict=3", scripted(take, map[string]any{"owner": want.owner + strings.Repeat("y", i)}), &got)
			if status != want.status || got.Result != want.result || got.Get.Source["owner"] != want.owner || got.SeqNo == nil || *got.SeqNo != 0 {
				t.Errorf("%d. take: status %d, %+v; want %+v", i+1, status, got, want)
			}
			at, err := got.Get.Source["at"].(json.Number).Int64()
			if behind := time.Since(time.UnixMilli(at)); err != nil || behind < -time.Second || behind > time.Minute {
				t.Errorf("%d. take: the time is %s ago (%v)", i+1, behind, err)
			}
		}
	})
}

// A filter of the reply shows what the script made of a document that it then
// leaves as it was.
func TestNoopShowsWhatIsNotStored(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		index := locksIndex(t, e)
		const huge = 1<<53 + 1
		call(t, http.MethodPost, index+"/_update/r", scripted("ctx._source.n = params.n", map[string]any{"n": huge}), nil)
		show := scripted("ctx._source.n += 1; ctx.op = 'none'", nil)
		for filter, want := range map[string]string{"true": "9007199254740993", "*": "9007199254740994"} {
			var got update
			call(t, http.MethodPost, index+"/_update/r?_source="+filter, show, &got)
			if n := fmt.Sprint(got.Get.Source["n"]); got.Result != "noop" || n != want {
				t.Errorf("_source=%s: %s with n %s, want noop with %s", filter, got.Result, n, want)
			}
			line, err := json.Marshal(show)
			if err != nil {
				t.Fatal(err)
			}
			var bulk struct{ Items []struct{ Update update } }
			call(t, http.MethodPost, index+"/_bulk?_source="+filter, `{"update":{"_id":"r"}}`+"\n"+string(line)+"\n", &bulk)
			if len(bulk.Items) != 1 || fmt.Sprint(bulk.Items[0].Update.Get.Source["n"]) != want {
				t.Errorf("_bulk?_source=%s: %+v, want n %s", filter, bulk, want)
			}
		}
		var missing update
		status := call(t, http.MethodPost, index+"/_update/none?_source=*", scripted("ctx.op = 'none'", nil), &missing)
		if status != http.StatusOK || missing.Result != "noop" || missing.Get.Found || missing.SeqNo != nil {
			t.Errorf("none on a missing document: status %d, %+v", status, missing)
		}
	})
}

func TestRetryOnConflictLosesNoUpdate(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		index := locksIndex(t, e)
		const acquirers, times = 8, 10
		var all sync.WaitGroup
		for range acquirers {
			all.Go(func() {
				for range times {
					status := call(t, http.MethodPost, index+"/_update/r?retry_on_conflict=100",
						scripted("ctx._source.n = (ctx._source.n == null ? 0 : ctx._source.n) + 1", nil), nil)
					if status != http.StatusOK && status != http.StatusCreated {
						t.Errorf("status %d", status)
					}
				}
			})
		}
		all.Wait()
		var got update
		call(t, http.MethodPost, index+"/_update/r?_source=true", scripted("ctx.op = 'none'", nil), &got)
		if n := fmt.Sprint(got.Get.Source["n"]); n != fmt.Sprint(acquirers*times) {
			t.Errorf("%s updates counted, want %d", n, acquirers*times)
		}
	})
}

func TestDeleteByQuery(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		index := locksIndex(t, e)
		call(t, http.MethodPost, index+"/_update/r?refresh=true", scripted("ctx._source.owner = 'me'", nil), nil)
		var got struct{ Deleted int }
		query := map[string]any{"query": map[string]any{"term": map[string]any{"owner.keyword": "me"}}}
		call(t, http.MethodPost, index+"/_delete_by_query?refresh=true", query, &got)
		if got.Deleted != 1 {
			t.Errorf("%d deleted, want 1", got.Deleted)
		}
	})
}

func TestIndexIsDeletedWithTheTest(t *testing.T) {
	engines.SearchEngines(t, func(t *testing.T, e engines.Engine) {
		var index string
		t.Run("inner", func(t *testing.T) { index = locksIndex(t, e) })
		if status := call(t, http.MethodGet, index, nil, nil); status != http.StatusNotFound {
			t.Errorf("status %d after the test, want 404", status)
		}
	})
}

func TestRestartKeepsData(t *testing.T) {
	thorough.Test(t, "starts a node twice")
	engines.SearchServers(t, func(t *testing.T, s *engines.SearchServer) {
		index := locksIndex(t, s.Engine)
		before := s.URL
		call(t, http.MethodPost, index+"/_update/r", scripted("ctx._source.owner = 'me'", nil), nil)
		s.Restart(t)
		var got update
		status := call(t, http.MethodPost, index+"/_update/r?_source=true", scripted("ctx.op = 'none'", nil), &got)
		if s.URL != before || status != http.StatusOK || got.Get.Source["owner"] != "me" {
			t.Errorf("after a restart of %s at %s: status %d, %+v", before, s.URL, status, got)
		}
	})
}
