//go:build linux

package recipes

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
)

// relay is between callers and a server, and sends answers of its own at first.
type relay struct {
	server string
	mu     sync.Mutex
	asked  map[string]int  // requests for each path
	holds  map[string]bool // hold IDs in requests
}

// stray are answers that are not the server's answer to the request. Some look like a grant,
// and some like a final refusal.
var stray = []func(w http.ResponseWriter, answer []byte){
	func(w http.ResponseWriter, _ []byte) { // an answer for another holder
		const id = "0123456789abcdef01234567"
		w.Header().Set("Holdfast-Store", id)
		page(w, http.StatusOK, "application/json", `{"resource": "nightly", "holdId": "`+id+`", "token": 1, "safeForMs": 60000, `+
			`"results": [{"holdId": "`+id+`", "outcome": "lost", "found": false}]}`)
	},
	func(w http.ResponseWriter, _ []byte) {
		page(w, http.StatusBadGateway, "text/html", "<h1>Bad gateway</h1>")
	},
	func(w http.ResponseWriter, _ []byte) {
		page(w, http.StatusOK, "text/html", "<h1>Log in to the network</h1>")
	},
	func(w http.ResponseWriter, _ []byte) {
		page(w, http.StatusOK, "application/json", `{"token": 1, "safeForMs": 60000}`)
	},
	func(w http.ResponseWriter, _ []byte) { page(w, http.StatusNotFound, "text/plain", "deploying") },
	func(w http.ResponseWriter, _ []byte) {
		page(w, http.StatusForbidden, "application/problem+json", `{"type": "about:blank", "title": "Forbidden", "status": 403}`)
	},
	func(w http.ResponseWriter, _ []byte) {
		w.Header().Set("Location", "http://127.0.0.1:1/")
		page(w, http.StatusTemporaryRedirect, "text/plain", "")
	},
	func(w http.ResponseWriter, answer []byte) { // half of the answer
		w.Header().Set("Holdfast-Store", "0123456789abcdef01234567")
		w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		page(w, http.StatusOK, "application/json", string(answer[:len(answer)-3]))
		panic(http.ErrAbortHandler)
	},
	func(http.ResponseWriter, []byte) { panic(http.ErrAbortHandler) },
}

func page(w http.ResponseWriter, status int, media, text string) {
	w.Header().Set("Content-Type", media)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// ServeHTTP always passes the request on, so that the server applies it.
func (y *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	turn := y.note(r.URL.Path, body)
	onward, err := http.NewRequestWithContext(r.Context(), r.Method, y.server+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	onward.Header = r.Header
	answer, err := http.DefaultClient.Do(onward)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if turn < len(stray) {
		stray[turn](w, text)
		return
	}
	for _, name := range []string{"Content-Type", "Holdfast-Store"} {
		w.Header().Set(name, answer.Header.Get(name))
	}
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(text)
}

// note chooses the answer to a request: the index of one of stray, or that of the server. Every
// second renewal gets the server's answer, so that the hold does not end.
func (y *relay) note(path string, body []byte) int {
	var q struct {
		HoldID string
		Holds  []struct{ HoldID string }
	}
	_ = json.Unmarshal(body, &q)
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, hold := range q.Holds {
		y.holds[hold.HoldID] = true
	}
	if q.HoldID != "" {
		y.holds[q.HoldID] = true
	}
	n := y.asked[path]
	y.asked[path]++
	if path == "/v1/renew" {
		if n%2 == 1 {
			return len(stray)
		}
		return n / 2
	}
	return n
}

func (y *relay) times(path string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.asked[path]
}

// A caller ignores an answer that is not the server's, and repeats the same request.
func TestCallersBehindStrayAnswers(t *testing.T) {
	onCallers(t, func(c *calling) {
		y := &relay{server: c.url, asked: map[string]int{}, holds: map[string]bool{}}
		front := httptest.NewServer(y)
		t.Cleanup(front.Close)
		c.env = append(slices.Clone(c.env), "HOLDFAST_URL="+front.URL)
		first := c.nightly()
		c.awaitBegun(1)
		if got := y.times("/v1/acquire"); got <= len(stray) { // more if the hold ended before an answer came
			t.Errorf("asked for the lock %d times, want %d", got, len(stray)+1)
		}
		c.until("renewed in spite of it", func() bool { return y.times("/v1/renew") > 6 })
		c.checkBegun(1)
		c.letEnd(1)
		first.exits(0)
		if got := y.times("/v1/release"); got != len(stray)+1 {
			t.Errorf("asked for the release %d times, want %d", got, len(stray)+1)
		}
		if len(y.holds) != 1 {
			t.Errorf("%d hold IDs for one acquisition: %v", len(y.holds), y.holds)
		}
		c.checkFree()
	})
}
