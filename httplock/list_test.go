package httplock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// lister answers each list with count holds.
func lister(t *testing.T, count int) *testServer {
	return &testServer{t: t, store: memlock.New(nil), before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == wire.HoldsPath {
			reply{status: http.StatusOK, media: wire.NDJSON, id: testStoreID, body: listOf(count)}.write(w)
			return false
		}
		return true
	}}
}

// listOf returns a list of count holds.
func listOf(count int) string {
	var b strings.Builder
	lines := json.NewEncoder(&b)
	for i := range count {
		s := driver.Status{Resource: fmt.Sprint("resource ", i), LockID: "a", HoldID: driver.HoldID{1}, Token: uint64(i), Left: time.Second}
		_ = lines.Encode(wire.HoldOf(s))
	}
	_ = lines.Encode(wire.End{End: &wire.Count{Count: count}})
	return b.String()
}

// A long list is complete and in order, however slow its reader is: the server has
// finished before.
func TestLongList(t *testing.T) {
	const count = 20_000
	server := lister(t, count)
	s := dial(t, server.listen().URL, nil)
	n := 0
	for h, err := range s.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprint("resource ", n); h.Resource != want {
			t.Fatalf("hold %d is %q", n, h.Resource)
		}
		if n == 0 {
			held(t, s) // on the same connection
		}
		n++
	}
	if n != count {
		t.Errorf("%d holds, want %d", n, count)
	}
}

// A list that is cut anywhere is an error, and yields nothing else, even if somebody on
// the way marks the part as complete.
func TestListCut(t *testing.T) {
	t.Parallel()
	long, short := listOf(20_000), listOf(3)
	cut := func(what, text string) {
		for _, seen := range []bool{true, false} {
			s := answering(t, reply{status: http.StatusOK, media: wire.NDJSON, id: testStoreID, body: text, cut: seen})
			holds, errs := 0, 0
			for _, err := range s.List(t.Context(), driver.Filter{}) {
				if err == nil {
					holds++
				} else if errs++; isDefinite(err) {
					t.Errorf("cut %s: %v", what, err)
				}
			}
			if holds != 0 || errs != 1 {
				t.Errorf("cut %s: %d holds and %d errors", what, holds, errs)
			}
		}
	}
	cut("after many entries", long[:len(long)-5000])
	for n := range len(short) - 1 { // the last byte ends the line
		cut(fmt.Sprintf("behind %d bytes", n), short[:n])
	}
}

// A list ends with its ctx, even in the middle of a loop.
func TestListEnds(t *testing.T) {
	s := dial(t, lister(t, 20_000).listen().URL, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range s.List(ctx, driver.Filter{}) {
		if err != nil {
			if !errors.Is(err, context.Canceled) || n != 10 {
				t.Errorf("after %d holds: %v", n, err)
			}
			break
		}
		if n++; n == 10 {
			cancel()
		}
	}
}

// A filter is sent unchanged. Limits finer than milliseconds choose a little more.
func TestQuery(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600))
	for want, f := range map[string]driver.Filter{
		"":                               {},
		"resource=%0A%26%3D%F0%9F%94%92": {Resource: "\n&=🔒"},
		"lockId=b&owner=c&resource=a+":   {Resource: "a ", LockID: "b", Owner: "c"},
		"createdAfter=2026-01-02T02%3A04%3A05.000006Z&createdBefore=2026-01-02T02%3A04%3A05.000006Z": {CreatedBefore: at, CreatedAfter: at},
		"ttlAtLeastMs=1&ttlBelowMs=2":           {LeftBelow: 1001 * time.Microsecond, LeftAtLeast: 1999 * time.Microsecond},
		"ttlAtLeastMs=3153600000001":            {LeftAtLeast: driver.Forever},
		"expired=true&ttlBelowMs=3153600000001": {LeftBelow: driver.Forever, Expired: true},
	} {
		if got := query(f).Encode(); got != want {
			t.Errorf("%+v: %s, want %s", f, got, want)
		}
	}
}
