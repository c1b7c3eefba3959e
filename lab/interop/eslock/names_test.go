package eslock

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/esnode"
)

// TestNames takes each ID with old programs and with the drop-in, and the document that they
// lock for it with the Client: only one of them may hold it. Servers drop slashes at the end of
// a path.
func TestNames(t *testing.T) {
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) {
		index := n.Index(t)
		store := eslock.New(n, &eslock.Options{Index: index})
		client := holdfast.New(store, nil)
		t.Cleanup(func() {
			if err := errors.Join(client.Close(), store.Close()); err != nil {
				t.Error(err)
			}
		})
		players := []player{old{n, index}, dropIn{n.InIndex(index)}, native{client}}
		for id, document := range map[string]string{
			"plain": "plain", "job/": "job", "nightly//": "nightly", "weekly/#x": "weekly", "c%2Fd": "c/d", "c%2Fe/": "c/e",
			"trail%2F": "trail/", "trails%2F%2F": "trails//", "trailed%2F/": "trailed/",
		} {
			named := func(p player, owner string, ttl time.Duration) (grip, error) {
				a := ask{resource: id, owner: owner, ttl: ttl}
				if p.kind() == "native" {
					a.resource = document
				}
				return p.lock(t.Context(), a)
			}
			for _, holder := range players {
				held, err := named(holder, "holder", long)
				if err != nil || held == nil {
					t.Fatalf("%q by %s: %v, error %v", id, holder.kind(), held, err)
				}
				for _, other := range players {
					if g, err := named(other, "other", long); g != nil || err != nil {
						t.Errorf("%q is held by %s, and %s got %v, error %v", id, holder.kind(), other.kind(), g, err)
					}
				}
				if holder.kind() != "old" {
					if found, err := held.release(t.Context()); !found || err != nil {
						t.Errorf("%q: release by %s: found %v, error %v", id, holder.kind(), found, err)
					}
					continue
				}
				// It searches for the ID to release it, and does not find some IDs.
				if err := held.extend(t.Context(), time.Millisecond); err != nil {
					t.Error(err)
				}
				for held.holds() {
					<-time.After(time.Millisecond)
				}
			}
		}
		// The Client's own names stay as they are.
		var all []*holdfast.Hold
		for _, name := range []string{"job", "job/", "job//", "/job"} {
			h, err := client.TryLock(t.Context(), name, nil)
			if err != nil {
				t.Fatalf("%q: %v", name, err)
			}
			all = append(all, h)
		}
		for _, h := range all {
			if err := h.Unlock(t.Context()); err != nil {
				t.Error(err)
			}
		}
	})
}
