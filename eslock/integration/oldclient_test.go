package eslock_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/interop/oldeslock"
)

// oldClient is a program with es-distributed-lock.
type oldClient struct {
	node
	t     testing.TB
	index string
	owner string
	now   func() time.Time
}

func (n node) oldClient(t testing.TB, index, owner string) oldClient {
	return oldClient{node: n, t: t, index: index, owner: owner, now: time.Now}
}

func (o oldClient) lock(id string) *oldeslock.Lock {
	return oldeslock.New(o, o.index, id, o.owner, o.now)
}

func (o oldClient) acquire(id string, ttl time.Duration) bool {
	o.t.Helper()
	err := o.lock(id).Acquire(o.t.Context(), ttl)
	if err != nil && !errors.Is(err, oldeslock.ErrHeld) {
		o.t.Fatal(err)
	}
	return err == nil
}

func (o oldClient) release(id string) (deleted bool) {
	o.t.Helper()
	deleted, err := o.lock(id).Release(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	return deleted
}

// Old and new clients exclude one another.
func TestOldClients(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index, OldClients: true})
		old, other := n.oldClient(t, index, "old"), n.oldClient(t, index, "other")
		for name, test := range map[string]func(t *testing.T, r string){
			"an old lock blocks": func(t *testing.T, r string) {
				old.acquire(r, time.Hour)
				held := ask.Refused(t, s, ask.Request(r, "a"))
				if h := held.Holders; len(h) != 1 || h[0].LockID != "old" || !h[0].HoldID.IsZero() || h[0].Token != 0 ||
					h[0].Mode != driver.Exclusive || h[0].Left > time.Hour || h[0].Left < 50*time.Minute || held.BySelf {
					t.Errorf("held by %+v", held)
				}
				if held := ask.Refused(t, s, ask.Shared(ask.Request(r, "a"), 5)); held.BySelf {
					t.Errorf("held by %+v", held)
				}
				if held := ask.Refused(t, s, ask.Request(r, "old")); !held.BySelf {
					t.Error("the owner is the lock ID")
				}
				if !old.release(r) {
					t.Error("the old client did not find its lock")
				}
				ask.Granted(t, s, ask.Request(r, "a"))
			},
			"an old lock that has expired does not": func(t *testing.T, r string) {
				old.acquire(r, -time.Millisecond)
				ask.Granted(t, s, ask.Shared(ask.Request(r, "a"), 0))
			},
			"a new lock blocks": func(t *testing.T, r string) {
				ref := ask.Granted(t, s, ask.Request(r, "a"))
				if old.acquire(r, time.Hour) {
					t.Fatal("both hold it")
				}
				ask.Released(t, s, ref, 0)
				if !old.acquire(r, time.Hour) {
					t.Error("it is free")
				}
			},
			"shared ones block until the last": func(t *testing.T, r string) {
				first, second := ask.Granted(t, s, ask.Shared(ask.Request(r, "a"), 0)), ask.Granted(t, s, ask.Shared(ask.Request(r, "b"), 0))
				for _, ref := range []driver.HoldRef{first, second} {
					if n.oldClient(t, index, "a").acquire(r, time.Hour) {
						t.Fatal("both hold it")
					}
					ask.Released(t, s, ref, 0)
				}
				if !old.acquire(r, time.Hour) {
					t.Error("it is free")
				}
			},
			"one without end blocks": func(t *testing.T, r string) {
				q := ask.Request(r, "a")
				q.TTL = driver.Forever
				ref := ask.Granted(t, s, q)
				if got := n.Source(t, index, r)["expires"]; got != "2262-04-11T23:47:16.854Z" || old.acquire(r, time.Hour) {
					t.Errorf("it expires %v", got)
				}
				ask.Released(t, s, ref, 0)
				if got := n.Source(t, index, r)["expires"]; got != "1970-01-01T00:00:00Z" {
					t.Errorf("released, it expires %v", got)
				}
			},
			"a takeover delay blocks": func(t *testing.T, r string) {
				q := ask.Request(r, "a")
				q.TTL, q.TakeoverDelay = time.Millisecond, time.Hour
				ask.Granted(t, s, q)
				if old.acquire(r, time.Hour) {
					t.Fatal("both hold it")
				}
			},
			"an old lock with a new one's owner is another": func(t *testing.T, r string) {
				ref := ask.Granted(t, s, ask.Request(r, "old"))
				if !old.acquire(r, time.Hour) {
					t.Fatal("the old client extended a hold with its owner")
				}
				ask.Lost(t, s, ref)
				if ask.Released(t, s, ref, 0) {
					t.Error("the former hold is gone")
				}
				if held := ask.Refused(t, s, ask.Request(r, "old")); !held.BySelf {
					t.Error("it is the same lock ID")
				}
				if other.acquire(r, time.Hour) {
					t.Error("both hold it")
				}
			},
			"taken over, a hold is lost": func(t *testing.T, r string) {
				q := ask.Request(r, "a")
				ref := ask.Granted(t, s, q)
				ahead := old
				ahead.now = func() time.Time { return time.Now().Add(2 * time.Hour) } // its own clock decides
				if !ahead.acquire(r, time.Hour) {
					t.Fatal("not taken over")
				}
				ask.Lost(t, s, ref)
				_ = ask.Refused(t, s, q)
			},
			"deleted, a hold is lost and its token is passed": func(t *testing.T, r string) {
				ref := ask.Granted(t, s, ask.Request(r, "old"))
				n.Must(t, http.MethodPost, "/"+index+"/_refresh", nil) // otherwise the old client would not find it
				if !old.release(r) {
					t.Fatal("not released")
				}
				ask.Lost(t, s, ref)
				if ask.Released(t, s, ref, 0) {
					t.Error("found")
				}
				if next := ask.Granted(t, s, ask.Request(r, "b")); next.Token <= ref.Token {
					t.Errorf("token %d follows %d", next.Token, ref.Token)
				}
			},
			"an old lock keeps the last token": func(t *testing.T, r string) {
				ref := ask.Granted(t, s, ask.Request(r, "a"))
				ask.Released(t, s, ref, 0)
				old.acquire(r, -time.Second)
				if next := ask.Granted(t, s, ask.Request(r, "b")); next.Token <= ref.Token {
					t.Errorf("token %d follows %d", next.Token, ref.Token)
				}
			},
			"an old lock is released by force": func(t *testing.T, r string) {
				old.acquire(r, time.Hour)
				ask.Released(t, s, driver.HoldRef{Resource: r, LockID: "old"}, time.Minute)
				if held := ask.Refused(t, s, ask.Request(r, "a")); len(held.Holders) != 1 || !held.Holders[0].Released || held.RetryAfter > time.Minute {
					t.Errorf("held by %+v", held)
				}
				if other.acquire(r, time.Hour) {
					t.Error("both hold it")
				}
				if !ask.Released(t, s, driver.HoldRef{Resource: r, LockID: "old"}, 0) {
					t.Error("not found")
				}
				ask.Granted(t, s, ask.Request(r, "a"))
			},
			"old locks are listed and swept": func(t *testing.T, r string) {
				old.acquire(r, time.Hour)
				n.oldClient(t, index, "old").acquire(r+" expired", -time.Second)
				var found int
				for status, err := range s.List(t.Context(), driver.Filter{LockID: "old"}) {
					if err != nil {
						t.Fatal(err)
					}
					if status.Resource == r+" expired" {
						t.Error("it has expired")
					}
					if status.Resource == r {
						found++
					}
				}
				if found != 1 {
					t.Errorf("found %d times", found)
				}
				if res, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Hour}); err != nil || res.Holds < 1 {
					t.Errorf("%+v, %v", res, err)
				}
				if got := n.Source(t, index, r+" expired")["expires"]; got != "1970-01-01T00:00:00Z" {
					t.Errorf("swept, it expires %v", got)
				}
				_ = ask.Refused(t, s, ask.Request(r, "a"))
			},
		} {
			t.Run(name, func(t *testing.T) { test(t, name) })
		}
	})
}

// Ends between two milliseconds, with zones, and with nothing after the seconds.
func TestOldDates(t *testing.T) {
	onBoth(t, func(t *testing.T, n node) {
		index := n.Index(t)
		s := newStore(t, n, &eslock.Options{Index: index})
		for i, c := range []struct {
			expires string
			held    bool
		}{
			{"2099-01-02T03:04:05Z", true}, {"2099-01-02T03:04:05.123456789Z", true}, {"2099-01-02T03:04:05.1+05:30", true},
			{"2001-01-02T03:04:05Z", false}, {"2001-01-02T03:04:05.999999999-11:00", false}, {"0001-01-01T00:00:00Z", false},
		} {
			r := fmt.Sprint("date ", i)
			n.Must(t, http.MethodPut, "/"+index+"/_doc/"+url.PathEscape(r), map[string]any{
				"owner": "old", "acquired": "2001-01-02T03:04:05Z", "expires": c.expires,
			})
			if _, err := s.Acquire(t.Context(), ask.Request(r, "a")); errors.Is(err, driver.ErrHeld) != c.held || !c.held && err != nil {
				t.Errorf("%s: %v", c.expires, err)
			}
		}
	})
}
