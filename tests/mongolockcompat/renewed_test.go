package mongolockcompat

import (
	"context"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	lock "github.com/holdfast-go/holdfast/compat/mongo-lock"
)

// afterReads is a client of the drop-in that has found its indexes, and does
// something whenever it has read locks, for the n-th time.
func (f *fixture) afterReads(do func(n int)) *lock.Client {
	f.t.Helper()
	ready, n := false, 0
	c := lock.NewClient(f.through(options.Client().SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if ready && e.CommandName == "find" {
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

// What a program with mongo-lock renews, while it is being unlocked, is a lock of the
// lockId as before: it is unlocked, too, and said to be.
func TestUnlockWhatWasRenewed(t *testing.T) {
	for name, take := range map[string]func(*fixture){
		"exclusive": func(f *fixture) { f.x("r", "a", 100) },
		"shared":    func(f *fixture) { f.s("r", "a", 100, -1) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			take(f)
			c := f.afterReads(func(n int) {
				if n > 1 {
					return
				}
				f.pass(time.Second) // or it would be renewed to the end that it has
				if err := f.old.Renew(t.Context(), "a", time.Hour); err != nil {
					t.Error(err)
				}
			})
			want(t, must[[]lock.LockStatus](t)(c.Unlock(t.Context(), "a")), "r/a")
			want(t, f.status(lock.Filter{}))
		})
	}
}

// A purge takes what it saw expired. What was renewed since is somebody's.
func TestPurgeWhatWasRenewed(t *testing.T) {
	f := newFixture(t)
	f.x("r", "a", 1)
	f.pass(2 * time.Second)
	c := f.afterReads(func(n int) {
		if n == 3 { // the last look before it releases
			f.oldX("r", "a", time.Hour)
		}
	})
	want(t, must[[]lock.LockStatus](t)(lock.NewPurger(c).Purge(t.Context())))
	want(t, f.status(lock.Filter{}), "r/a")
}
