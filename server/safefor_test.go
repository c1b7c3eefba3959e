package server_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
)

// However long a request, the store's decision and the answer take, and however often it
// was repeated: from when the caller sent its request, it has safeForMs at least.
func TestSafeForIsNeverTooLong(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 60
	}
	granted, renewed, waited := 0, 0, 0
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 1))
			delay := func(most time.Duration) time.Duration {
				if rnd.IntN(3) == 0 {
					return 0
				}
				return time.Duration(rnd.Int64N(int64(most)))
			}
			faults := rand.New(rand.NewPCG(uint64(seed), 2)) // for one call at a time
			upTo := func(d time.Duration) <-chan struct{} { return after(time.Duration(faults.Int64N(int64(d)))) }
			direct := memlock.New(nil)
			store := faultyOf(t, direct, func(c drivertest.Call) drivertest.Fault {
				if c.Op == drivertest.Watch {
					return drivertest.Fault{}
				}
				switch faults.IntN(5) {
				case 0:
					return drivertest.Fault{LoseReply: true}
				case 1:
					return drivertest.Fault{LoseRequest: true}
				}
				return drivertest.Fault{HoldRequest: upTo(3 * time.Second), HoldReply: upTo(4 * time.Second)}
			})
			s := newSite(t, store, nil)
			// Whether the hold is there until then, by the store's own clock.
			check := func(sent time.Time, safe *wire.Millis, ref driver.HoldRef) {
				t.Helper()
				if safe == nil {
					t.Error("safeForMs is missing")
					return
				}
				holds := stored(t, direct, "r")
				if len(holds) != 1 || holds[0].HoldID != ref.HoldID {
					if time.Since(sent) < safe.Duration() {
						t.Errorf("seed %d: the hold is gone %v before", seed, safe.Duration()-time.Since(sent))
					}
					return
				}
				if end := time.Now().Add(holds[0].Left); sent.Add(safe.Duration()).After(end) {
					t.Errorf("seed %d: safe for %v, which is %v too long", seed, safe.Duration(), sent.Add(safe.Duration()).Sub(end))
				}
			}
			q := wire.AcquireRequest{Resource: "r", HoldID: driver.NewHoldID(), TTLMs: wire.Millis(500 + rnd.IntN(20_000))}
			if rnd.IntN(2) == 0 {
				other := driver.AcquireRequest{Resource: "r", LockID: "other", HoldID: driver.NewHoldID(), TTL: time.Duration(1 + rnd.Int64N(int64(6*time.Second)))}
				other.TTL = other.TTL.Truncate(time.Millisecond) + time.Millisecond
				if _, err := direct.Acquire(t.Context(), other); err != nil {
					t.Fatal(err)
				}
				q.WaitMs = 20_000
				waited++
			}
			for range 3 {
				sent := time.Now()
				time.Sleep(delay(time.Second)) // on the way to the server
				a := s.post(wire.AcquirePath, q)
				if a.status != 200 {
					continue
				}
				g := grantOf(t, a)
				granted++
				ref := driver.HoldRef{Resource: "r", LockID: g.LockID, HoldID: g.HoldID}
				time.Sleep(delay(time.Second)) // on the way back
				check(sent, g.SafeForMs, ref)
				sent = time.Now()
				time.Sleep(delay(time.Second))
				if r := s.renew(refOf(g), q.TTLMs); r.Outcome == wire.Renewed {
					renewed++
					check(sent, r.SafeForMs, ref)
				}
				time.Sleep(delay(3 * time.Second))
			}
		})
	}
	if granted < seeds/2 || renewed < seeds/4 || waited < seeds/4 {
		t.Errorf("%d grants, %d renewals, %d waits: too few", granted, renewed, waited)
	}
	t.Logf("%d grants, %d renewals, %d waits", granted, renewed, waited)
}

// unknowing is a store that cannot tell what is left of a hold.
type unknowing struct{ driver.Store }

func (u unknowing) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := u.Store.Acquire(ctx, q)
	g.Left = driver.Unknown
	return g, err
}

func (u unknowing) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	rs, err := u.Store.Renew(ctx, qs)
	for i := range rs {
		rs[i].Left = driver.Unknown
	}
	return rs, err
}

// A store that does not return the time left: the caller is told nothing.
func TestSafeForIsAbsent(t *testing.T) {
	s := newSite(t, unknowing{memlock.New(nil)}, nil)
	g := s.acquire(wire.AcquireRequest{Resource: "r"})
	if g.TTLMs != nil || g.SafeForMs != nil {
		t.Errorf("%+v", g)
	}
	if r := s.renew(refOf(g), 1000); r.Outcome != wire.Renewed || r.SafeForMs != nil || r.TTLMs != nil {
		t.Errorf("%+v", r)
	}
}
