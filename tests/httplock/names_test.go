package httplock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// The longest names are those of control characters, of which JSON makes six bytes each. A
// thousand of them are renewed and released in one batch of a store, and in one request.
func TestLongestNames(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	s := newSite(t, memlock.New(nil), nil)
	far := dial(t, s.url)
	name := func(i int) string {
		return strings.Repeat("\x01", driver.MaxName-10) + strings.NewReplacer(
			"0", "\x02", "1", "\x03", "2", "\x04", "3", "\x05", "4", "\x06", "5", "\x07", "6", "\x08", "7", "\x0e", "8", "\x0f", "9", "\x10",
		).Replace(fmt.Sprintf("%010d", i))
	}
	refs := make([]driver.HoldRef, n)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := worker; i < n; i += 8 {
				q := ask.Request(name(i), name(n-i))
				q.Details = driver.Details{Owner: name(i), Host: name(i), Comment: name(i)}
				g, err := far.Acquire(t.Context(), q)
				if err != nil {
					t.Errorf("acquire: %v", err)
				}
				refs[i] = driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
			}
		})
	}
	if wg.Wait(); t.Failed() {
		return
	}
	var renewals []driver.RenewRequest
	var releases []driver.ReleaseRequest
	var renewal wire.RenewRequest
	for _, ref := range refs {
		renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: 5 * time.Hour})
		releases = append(releases, driver.ReleaseRequest{HoldRef: ref})
		renewal.Holds = append(renewal.Holds, wire.Renewal{Ref: wire.RefOfHold(ref), TTLMs: 5 * 3_600_000})
	}
	renewed, err := far.Renew(t.Context(), renewals)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range renewed {
		if r.Err != nil {
			t.Fatalf("renewal %d: %v", i, r.Err)
		}
	}
	seen := 0
	for st, err := range far.List(t.Context(), driver.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; st.Owner != st.Resource {
			t.Fatalf("listed owner %q of %q", st.Owner, st.Resource)
		}
	}
	if seen != n {
		t.Errorf("%d are listed, want %d", seen, n)
	}
	postAll(t, s.url+wire.RenewPath, renewal)
	released, err := far.Release(t.Context(), releases)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range released {
		if r.Err != nil || !r.Found {
			t.Fatalf("release %d: found %v, %v", i, r.Found, r.Err)
		}
	}
}

// postAll sends one request with all renewals, which must all succeed.
func postAll(t *testing.T, url string, q wire.RenewRequest) {
	t.Helper()
	var a wire.RenewAnswer
	exchange(t, url, q, &a)
	if len(a.Results) != len(q.Holds) {
		t.Fatalf("%d results, want %d", len(a.Results), len(q.Holds))
	}
	for i, r := range a.Results {
		if r.Outcome != wire.Renewed {
			t.Fatalf("renewal %d: %+v", i, r)
		}
	}
}

// exchange posts q, and reads the answer, which must be 200.
func exchange(t *testing.T, url string, q, a any) {
	t.Helper()
	body, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", wire.JSON)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(answer.Body).Decode(a); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", url, answer.Status, err)
	}
}
