package dropin_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/mongolock"
	lock "github.com/holdfast-go/holdfast/mongolock/compat/mongo-lock"
)

func (f *fixture) purge(wanted ...string) []lock.LockStatus {
	f.t.Helper()
	purged := must[[]lock.LockStatus](f.t)(lock.NewPurger(f.Client).Purge(f.t.Context()))
	want(f.t, purged, wanted...)
	return purged
}

// All locks of a lockId with an expired lock are purged, and no others.
func TestPurge(t *testing.T) {
	f := newFixture(t)
	f.purge()
	f.x("r1", "a", 0)
	f.x("r2", "b", 1)
	f.s("r3", "c", 1, -1)
	f.x("r4", "b", 0)
	f.s("r3", "b", 30, -1)
	f.s("r3", "d", 30, -1)
	f.purge()
	f.pass(time.Second)
	purged := f.purge("r3/b", "r4/b", "r3/c", "r2/b")
	for i, ttl := range []int64{29, -1, 0, 0} { // their former TTLs
		if got := purged[i].TTL; got > ttl || got < min(ttl, 0) {
			t.Errorf("%s had a TTL of %d, want %d", purged[i].Resource, got, ttl)
		}
	}
	want(t, f.status(lock.Filter{}), "r3/d", "r1/a")
	f.counted("r3", 1)
	f.purge()
}

// An expired lock whose resource has another holder now is not purged.
func TestPurgeAfterTakeover(t *testing.T) {
	f := newFixture(t)
	f.x("r1", "a", 1)
	f.x("r2", "a", 100)
	f.pass(time.Second)
	f.x("r1", "b", 0)
	f.purge()
	want(t, f.status(lock.Filter{}), "r1/b", "r2/a")
}

// A hold in its takeover delay blocks, and counts as expired for nobody.
func TestPurgeWaitsForTakeoverDelay(t *testing.T) {
	f := newFixture(t)
	store := mongolock.New(f.coll, &mongolock.Options{Poll: true})
	if err := f.CreateIndexes(t.Context()); err != nil { // this may take long
		t.Fatal(err)
	}
	_, err := store.Acquire(t.Context(), driver.AcquireRequest{
		Resource: "r1", LockID: "a", HoldID: driver.NewHoldID(), TTL: time.Second, TakeoverDelay: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	f.pass(10 * time.Millisecond)
	f.x("r2", "a", 100)
	f.pass(time.Second)
	f.purge()
	refused(t, f.XLock(t.Context(), "r1", "b", lock.LockDetails{}))
	f.pass(5 * time.Second)
	f.purge("r2/a", "r1/a")
}

// After Purge has seen an expired lock, its lockId may lock again, or a timely renewal
// may take effect late because it waited for the document. The server then finds nothing
// expired, so the lock stays, and with it the other locks of its lockId, unless one of
// them has expired.
func TestPurgeLooksAgain(t *testing.T) {
	renews := func(f *fixture) {
		f.pass(-time.Second - 500*time.Millisecond)
		renewed, err := mongolock.New(f.coll, nil).Renew(t.Context(), []driver.RenewRequest{{HoldRef: f.ref("r1"), TTL: time.Minute}})
		if err != nil || renewed[0].Err != nil {
			t.Errorf("renewal: %v %v", renewed, err)
		}
		f.pass(time.Second + 500*time.Millisecond)
	}
	locks := func(f *fixture) { f.x("r1", "a", 100) } // the expired lock does not block this
	for name, c := range map[string]struct {
		take   func(f *fixture)
		find   int // after which read it comes
		comes  func(f *fixture)
		purged []string
		stay   []string
	}{
		"locks after the first look":  {func(f *fixture) { f.x("r1", "a", 3) }, 1, locks, nil, []string{"r1/a", "r2/a"}},
		"locks after the last look":   {func(f *fixture) { f.x("r1", "a", 3) }, 2, locks, nil, []string{"r1/a", "r2/a"}},
		"renews after the first look": {func(f *fixture) { f.x("r1", "a", 3) }, 1, renews, nil, []string{"r1/a", "r2/a"}},
		"renews after the last look":  {func(f *fixture) { f.x("r1", "a", 3) }, 2, renews, nil, []string{"r1/a", "r2/a"}},
		"renews a shared one":         {func(f *fixture) { f.s("r1", "a", 3, -1) }, 2, renews, nil, []string{"r1/a", "r2/a"}},
		"renews beside one that expired": {func(f *fixture) {
			f.x("r0", "a", 1)
			f.pass(time.Second)
			f.x("r1", "a", 3)
		}, 2, renews, []string{"r1/a", "r0/a", "r2/a"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			if !f.clock.Set() {
				t.Skip("the clock cannot be set back, as if the renewal had waited")
			}
			f.x("r2", "a", 100)
			c.take(f)
			f.pass(3 * time.Second)
			found := 0
			watched := f.after("find", func(n int) {
				if found = n; n == c.find {
					c.comes(f)
				}
			})
			purged := must[[]lock.LockStatus](t)(lock.NewPurger(watched).Purge(t.Context()))
			want(t, purged, c.purged...)
			want(t, f.status(lock.Filter{}), c.stay...)
			if found < c.find {
				t.Errorf("Purge read %d times", found)
			}
		})
	}
}

// ref returns the exclusive or first shared hold of the resource.
func (f *fixture) ref(resource string) driver.HoldRef {
	f.t.Helper()
	for s, err := range mongolock.New(f.coll, nil).List(f.t.Context(), driver.Filter{Resource: resource, Expired: true}) {
		if err != nil {
			f.t.Fatal(err)
		}
		return s.Ref()
	}
	f.t.Fatalf("there is no hold of %q", resource)
	return driver.HoldRef{}
}
