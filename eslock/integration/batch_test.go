package eslock_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// counting is a node that counts the updates that it gets.
type counting struct {
	node
	updates atomic.Int64
}

func (c *counting) Perform(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/_bulk") {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		c.updates.Add(int64(bytes.Count(text, []byte(`{"update":`))))
		req.Body = io.NopCloser(bytes.NewReader(text))
	}
	return c.node.Perform(req)
}

// Each update reads all holds of a document and is written to all copies. So one update
// handles many requests for the document, and each request gets its own result.
func TestBatchOnOneDocument(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		c := &counting{node: n}
		s := newStore(t, c, &eslock.Options{Index: n.Index(t)})
		grant := func(lockID string) driver.HoldRef { return ask.Granted(t, s, ask.Shared(ask.Request("r", lockID), 0)) }
		grant("beside")
		var live []driver.HoldRef
		for i := range 10 {
			live = append(live, grant(fmt.Sprint("live ", i)))
		}
		other, token, given := grant("other"), grant("token"), grant("given up")
		other.HoldID = driver.NewHoldID()
		token.Token++
		if rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: given, After: 2 * time.Hour}}); err != nil || rs[0].Err != nil {
			t.Fatal(rs, err)
		}
		missing := driver.HoldRef{Resource: "r", LockID: "missing", HoldID: driver.NewHoldID()}
		good := append([]driver.HoldRef{{Resource: "r", LockID: grant("by its lock ID").LockID}}, live...)
		bad := []driver.HoldRef{other, token, given, missing}

		var renewals []driver.RenewRequest
		for _, ref := range append(bad, good...) {
			renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: 5 * time.Hour})
		}
		// One hold is renewed twice, the second time without an end.
		renewals = append(renewals, driver.RenewRequest{HoldRef: live[0], TTL: 6 * time.Hour}, driver.RenewRequest{HoldRef: live[2], TTL: driver.Forever})
		c.updates.Store(0)
		renewed, err := s.Renew(t.Context(), renewals)
		if err != nil || len(renewed) != len(renewals) {
			t.Fatal(renewed, err)
		}
		for i, r := range renewed {
			if lost := i < len(bad); errors.Is(r.Err, driver.ErrLost) != lost || !lost && (r.Err != nil || r.Left != renewals[i].TTL) {
				t.Errorf("renewal of %q: %+v, want lost: %v", renewals[i].LockID, r, lost)
			}
		}
		if n := c.updates.Load(); n != 1 {
			t.Errorf("%d renewals of one document took %d updates", len(renewals), n)
		}
		want := map[string]time.Duration{"beside": time.Hour, "other": time.Hour, "token": time.Hour, "given up": time.Hour}
		for _, ref := range good {
			want[ref.LockID] = 5 * time.Hour
		}
		want["live 0"], want["live 2"] = 6*time.Hour, driver.Forever
		mustLeave(t, s, want)

		// Some are released at once, one later, one twice, and some do not exist.
		releases := []driver.ReleaseRequest{{HoldRef: other}, {HoldRef: token}, {HoldRef: missing}, {HoldRef: live[2], After: 4 * time.Hour}, {HoldRef: live[3]}}
		for _, ref := range live[3:] {
			releases = append(releases, driver.ReleaseRequest{HoldRef: ref})
		}
		c.updates.Store(0)
		released, err := s.Release(t.Context(), releases)
		if err != nil || len(released) != len(releases) {
			t.Fatal(released, err)
		}
		for i, r := range released {
			if found := i == 3 || i == 4 || i > 5; r.Err != nil || r.Found != found {
				t.Errorf("release %d, of %q: %+v, want found: %v", i, releases[i].LockID, r, found)
			}
		}
		if n := c.updates.Load(); n != 1 {
			t.Errorf("%d releases of one document took %d updates", len(releases), n)
		}
		for _, ref := range live[3:] {
			delete(want, ref.LockID)
		}
		want["live 2"] = 4 * time.Hour
		mustLeave(t, s, want)
	})
}

// mustLeave checks that exactly these lock IDs hold r, for these times or a little less.
func mustLeave(t *testing.T, s driver.Store, want map[string]time.Duration) {
	t.Helper()
	all := held(t, s, "r")
	for _, h := range all {
		if left := want[h.LockID]; h.Left > left || h.Left != driver.Forever && h.Left < left-30*time.Minute {
			t.Errorf("%q has %v left, want %v", h.LockID, h.Left, left)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d holds, want %d", len(all), len(want))
	}
}

// With SpareRenewed, a release without a token spares a hold that was renewed, and no
// other.
func TestSpareRenewed(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		opts := eslock.Options{Index: n.Index(t)}
		all := newStore(t, n, &opts)
		opts.SpareRenewed = true
		sparing := newStore(t, n, &opts)
		full := func(r driver.HoldRef) driver.HoldRef { return r }
		noToken := func(r driver.HoldRef) driver.HoldRef { r.Token = 0; return r }
		lockID := func(r driver.HoldRef) driver.HoldRef { return driver.HoldRef{Resource: r.Resource, LockID: r.LockID} }
		for resource, c := range map[string]struct {
			s       *eslock.Store
			of      func(driver.HoldRef) driver.HoldRef
			renewed bool
			spared  bool
		}{
			"renewed":                 {sparing, noToken, true, true},
			"as it was":               {sparing, noToken, false, false},
			"renewed, with its token": {sparing, full, true, false},
			"renewed, by its lock ID": {sparing, lockID, true, false},
			"renewed, without option": {all, noToken, true, false},
		} {
			ref := ask.Granted(t, c.s, ask.Request(resource, "a"))
			if c.renewed {
				if rs, err := c.s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}}); err != nil || rs[0].Err != nil {
					t.Fatal(rs, err)
				}
			}
			if found := ask.Released(t, c.s, c.of(ref), 0); found == c.spared {
				t.Errorf("%s: found %v", resource, found)
			}
			if found := ask.Released(t, c.s, ref, 0); found != c.spared {
				t.Errorf("%s: exists afterwards: %v", resource, found)
			}
		}
	})
}
