package dropin_test

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/lab/engines"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

// after returns a client of the drop-in that has found its indexes. Whenever the command
// has succeeded for the n-th time, it calls do(n).
func (f *fixture) after(command string, do func(n int)) *lock.Client {
	f.t.Helper()
	ready, n := false, 0
	c := lock.NewClient(engines.MongoThrough(f.t, f.coll, options.Client().SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if ready && e.CommandName == command {
				n++
				do(n)
			}
		},
	})))
	if err := c.CreateIndexes(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	ready = true
	return c
}

// A lock that a program with mongo-lock renews during Unlock is still a lock of the
// lockId: it is unlocked and returned, too.
func TestUnlockAfterOldRenewal(t *testing.T) {
	for name, take := range map[string]func(*fixture){
		"exclusive": func(f *fixture) { f.x("r", "a", 100) },
		"shared":    func(f *fixture) { f.s("r", "a", 100, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			take(f)
			c := f.after("find", func(n int) {
				if n > 1 {
					return
				}
				f.pass(time.Second) // otherwise the renewal would not change the end
				if err := f.old.Renew(t.Context(), "a", time.Hour); err != nil {
					t.Error(err)
				}
			})
			want(t, must[[]lock.LockStatus](t)(c.Unlock(t.Context(), "a")), "r/a")
			want(t, f.status(lock.Filter{}))
		})
	}
}

// A lock that a program with mongo-lock renews during Renew is still a lock of the
// lockId, too: it is not reported as missing.
func TestRenewAfterOldRenewal(t *testing.T) {
	for name, c := range map[string]struct {
		take  func(*fixture)
		after string
		ttl   int64
	}{
		"exclusive, before it is": {func(f *fixture) { f.x("r", "a", 100) }, "find", 20},
		"shared, before it is":    {func(f *fixture) { f.s("r", "a", 100, -1) }, "find", 20},
		"exclusive, when it was":  {func(f *fixture) { f.x("r", "a", 100) }, "findAndModify", 3600},
		"shared, when it was":     {func(f *fixture) { f.s("r", "a", 100, -1) }, "findAndModify", 3600},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			c.take(f)
			client := f.after(c.after, func(n int) {
				if n > 1 {
					return
				}
				f.pass(time.Second) // otherwise the renewal would not change the end
				if err := f.old.Renew(t.Context(), "a", time.Hour); err != nil {
					t.Error(err)
				}
			})
			renewed := must[[]lock.LockStatus](t)(client.Renew(t.Context(), "a", 20))
			want(t, renewed, "r/a")
			if shown := f.status(lock.Filter{LockId: "a"}); len(shown) != 1 || shown[0].TTL != c.ttl {
				t.Errorf("after it: %+v, want a TTL of %d", shown, c.ttl)
			}
		})
	}
}

// Purge takes the locks that it saw expired, but not if they were renewed since then.
func TestPurgeSparesRenewed(t *testing.T) {
	f := newFixture(t)
	f.x("r", "a", 1)
	f.pass(2 * time.Second)
	c := f.after("find", func(n int) {
		if n == 2 { // the last look before it releases
			f.oldX("r", "a", time.Hour)
		}
	})
	want(t, must[[]lock.LockStatus](t)(lock.NewPurger(c).Purge(t.Context())))
	want(t, f.status(lock.Filter{}), "r/a")
}
