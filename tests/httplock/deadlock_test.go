package httplock_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/access"
)

// everybody may lock and look, and has no name, as at a server without --auth.
func everybody(*http.Request) (access.Caller, error) { return access.Everybody(), nil }

type named struct {
	access.Caller
	name string
}

func (n named) Name() string { return n.name }

var identities = map[string]access.Identify{
	"without names": everybody,
	"with one name": func(*http.Request) (access.Caller, error) { return named{access.Everybody(), "alice"}, nil },
	"operators":     operator,
}

// crossed acquires the outer lock, and under it the inner one, once both is closed.
type crossed func(ctx context.Context, t *testing.T, store driver.Store, outer, inner string, ready func(), both <-chan struct{}) error

// within one Client.
func within(ctx context.Context, t *testing.T, store driver.Store, outer, inner string, ready func(), both <-chan struct{}) error {
	c := client(t, store, outer)
	return c.Do(ctx, outer, nil, func(ctx context.Context) error {
		ready()
		<-both
		return c.Do(ctx, inner, nil, func(context.Context) error { return nil })
	})
}

// under returns one that acquires the inner lock with another store, as a run inside a run.
func under(ttl time.Duration, open func() driver.Store) crossed {
	return func(ctx context.Context, t *testing.T, store driver.Store, outer, inner string, ready func(), both <-chan struct{}) error {
		h, err := client(t, store, outer).Lock(ctx, outer, &holdfast.LockOptions{TTL: ttl, ForOthers: true})
		if err != nil {
			return err
		}
		ready()
		<-both
		got, err := client(t, open(), "inner").Lock(holdfast.Under(ctx, refOf(h)), inner, nil)
		if err == nil {
			err = got.Unlock(t.Context())
		}
		return errors.Join(err, h.Unlock(t.Context()))
	}
}

func refOf(h *holdfast.Hold) driver.HoldRef {
	return driver.HoldRef{Resource: h.Resource(), LockID: h.LockID(), HoldID: h.ID(), Token: h.Token()}
}

func client(t *testing.T, store driver.Store, owner string) *holdfast.Client {
	c := holdfast.New(store, &holdfast.Options{Owner: "who holds " + owner, NoSweep: true})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Two callers that wait for each other learn it as those at the store do, also if the server
// shows them no IDs, and whether the other one is behind a server or not.
func TestDeadlockThroughServers(t *testing.T) {
	for who, identify := range identities {
		for where, direct := range map[string]bool{"both behind": false, "one at the store": true} {
			for how, ttl := range map[string]time.Duration{"within": 0, "under, often renewed": 2 * time.Second, "under, seldom renewed": time.Minute} {
				t.Run(strings.Join([]string{who, where, how}, ", "), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						store := memlock.New(nil)
						behind := func() driver.Store {
							s, over := inMemorySiteFor(t, lend(store), identify)
							return openOver(t, s.url, over)
						}
						opens := [2]func() driver.Store{behind, behind}
						if direct {
							opens[1] = func() driver.Store { return lend(store) }
						}
						// Without the search for deadlocks they wait for ever.
						ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
						defer cancel()
						both, ready := make(chan struct{}), make(chan struct{}, 2)
						ends := make(chan error, 2)
						for i, way := range [][2]string{{"a", "b"}, {"b", "a"}} {
							cross := within
							if ttl > 0 {
								cross = under(ttl, opens[i])
							}
							go func() {
								ends <- cross(ctx, t, opens[i](), way[0], way[1], func() { ready <- struct{}{} }, both)
							}()
						}
						<-ready
						<-ready
						close(both)
						began := time.Now()
						errs := []error{<-ends, <-ends}
						if errors.Is(errs[1], holdfast.ErrDeadlock) {
							slices.Reverse(errs)
						}
						if !errors.Is(errs[0], holdfast.ErrDeadlock) || errs[1] != nil || !strings.Contains(errs[0].Error(), "who holds") {
							t.Errorf("errors %v", errs)
						}
						if took := time.Since(began); took > 15*time.Second {
							t.Errorf("found after %v", took)
						}
					})
				})
			}
		}
	}
}
