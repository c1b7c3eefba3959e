package mongolockcompat

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	lock "github.com/holdfast-go/holdfast/compat/mongo-lock"
)

// afterRead is a client of the drop-in, and does something once when it has read.
func (f *fixture) afterRead(do func()) *lock.Client {
	var once sync.Once
	return lock.NewClient(f.through(options.Client().SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName == "find" {
				once.Do(do)
			}
		},
	})))
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
			c := f.afterRead(func() {
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
	reads := 0
	c := lock.NewClient(f.through(options.Client().SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			if e.CommandName != "find" {
				return
			}
			if reads++; reads == 3 { // the last look before it releases
				f.oldX("r", "a", time.Hour)
			}
		},
	})))
	want(t, must[[]lock.LockStatus](t)(lock.NewPurger(c).Purge(t.Context())))
	want(t, f.status(lock.Filter{}), "r/a")
}
