package httplock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// The holder keeps what another program notes on its hold as that wrote it, though it may see
// it otherwise.
func TestNoteIsKeptThroughServers(t *testing.T) {
	for who, identify := range identities {
		t.Run(who, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memlock.New(nil)
				behind := func() driver.Store {
					s, over := inMemorySiteFor(t, lend(store), identify)
					return openOver(t, s.url, over)
				}
				blocked, err := client(t, store, "b").Lock(t.Context(), "b", nil)
				if err != nil {
					t.Fatal(err)
				}
				h, err := client(t, behind(), "a").Lock(t.Context(), "a", &holdfast.LockOptions{TTL: 3 * time.Second, ForOthers: true})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(holdfast.Under(t.Context(), refOf(h)))
				// Not when the hold is renewed, which may overtake the note.
				time.Sleep(300 * time.Millisecond)
				ended := make(chan error, 1)
				go func() {
					_, err := client(t, behind(), "inner").Lock(ctx, "b", nil)
					ended <- err
				}()
				time.Sleep(6 * time.Second)
				for range 40 {
					time.Sleep(1500 * time.Millisecond)
					var places []driver.PlaceID
					for p, err := range store.Waiters(t.Context(), driver.Filter{Resource: "b"}) {
						if err != nil {
							t.Fatal(err)
						}
						places = append(places, p.ID)
					}
					for s, err := range store.List(t.Context(), driver.Filter{Resource: "a"}) {
						if err != nil {
							t.Fatal(err)
						}
						if s.Waits == nil || !slices.Equal(places, []driver.PlaceID{s.Waits.Place}) {
							t.Fatalf("noted is %+v, the places are %v", s.Waits, places)
						}
					}
				}
				cancel()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				for _, h := range []*holdfast.Hold{h, blocked} {
					if err := h.Unlock(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		})
	}
}
