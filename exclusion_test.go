package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// badNetwork loses, delays and reorders requests and replies, as determined by the seed.
func badNetwork(seed uint64, never <-chan struct{}) rule {
	rnd := rand.New(rand.NewPCG(seed, 0xbad))
	return func(drivertest.Call) drivertest.Fault {
		delay := time.Duration(rnd.Int64N(int64(3 * time.Second)))
		switch n := rnd.IntN(100); {
		case n < 5:
			return drivertest.Fault{LoseRequest: true}
		case n < 10:
			return drivertest.Fault{LoseReply: true}
		case n < 20:
			return drivertest.Fault{HoldRequest: after(delay)}
		case n < 25:
			return drivertest.Fault{HoldRequest: after(delay), LoseReply: true}
		case n < 35:
			return drivertest.Fault{HoldReply: after(delay)}
		case n < 37:
			return drivertest.Fault{HoldRequest: never}
		}
		return drivertest.Fault{}
	}
}

// witness sees all granted holds and judges them by their contexts.
type witness struct {
	mu    sync.Mutex
	alive map[string][]*holdfast.Hold
	seen  int
}

// granted records a hold. All holds that it excludes must have ended before. limit is the
// limit of a shared hold, or 0.
func (w *witness) granted(t *testing.T, h *holdfast.Hold, limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen++
	r := h.Resource()
	shared := 0
	var alive []*holdfast.Hold
	for _, other := range w.alive[r] {
		if other.Context().Err() != nil {
			continue
		}
		alive = append(alive, other)
		if other.Mode() == holdfast.Exclusive || h.Mode() == holdfast.Exclusive {
			t.Errorf("%q: %v hold with token %d was granted while the %v one with token %d is held",
				r, h.Mode(), h.Token(), other.Mode(), other.Token())
		}
		if other.Token() < h.Token() { // a later hold may have another limit
			shared++
		}
	}
	if limit > 0 && shared >= limit {
		t.Errorf("%q: granted as one of at most %d, while %d are held", r, limit, shared)
	}
	w.alive[r] = append(alive, h)
}

// Many clients on bad networks: when a resource is granted, the contexts of all earlier holds
// that the grant excludes have ended.
func TestS01_holders_exclude_one_another(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			never := make(chan struct{})
			w := &witness{alive: make(map[string][]*holdfast.Hold)}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for i := range uint64(4) {
				c := newClient(t, faulty(t, store, badNetwork(seed<<8+i, never)), nil)
				for j := range uint64(5) {
					all.Go(func() {
						rnd := rand.New(rand.NewPCG(seed, i<<8+j))
						for ctx.Err() == nil {
							w.session(ctx, t, c, rnd)
						}
					})
				}
			}
			all.Wait()
			if w.seen < 50 {
				t.Errorf("seed %d: only %d grants", seed, w.seen)
			}
		})
	}
}

// session acquires a lock, holds it for a while, and releases it or leaves it.
func (w *witness) session(ctx context.Context, t *testing.T, c *holdfast.Client, rnd *rand.Rand) {
	upTo := func(d time.Duration) time.Duration { return time.Duration(1 + rnd.Int64N(int64(d))) }
	ctx, cancel := context.WithTimeout(ctx, upTo(20*time.Second))
	defer cancel()
	o := &holdfast.LockOptions{
		TTL:           holdfast.MinTTL + upTo(4*time.Second),
		TakeoverDelay: time.Duration(rnd.IntN(2)) * upTo(time.Second),
		NoKeepAlive:   rnd.IntN(4) == 0,
	}
	take := []func(context.Context, string, *holdfast.LockOptions) (*holdfast.Hold, error){
		c.Lock, c.TryLock, c.RLock, c.TryRLock,
	}
	kind := rnd.IntN(len(take))
	if kind >= 2 {
		o.Limit = rnd.IntN(4)
	}
	h, err := take[kind](ctx, fmt.Sprint(rnd.IntN(2)), o)
	if err != nil {
		time.Sleep(upTo(100 * time.Millisecond))
		return
	}
	w.granted(t, h, o.Limit)
	select {
	case <-h.Context().Done():
	case <-time.After(upTo(5 * time.Second)):
	}
	if rnd.IntN(3) == 0 {
		_ = h.Renew(ctx, upTo(5*time.Second)+holdfast.MinTTL)
	}
	if err := h.Unlock(ctx); errors.Is(err, holdfast.ErrReleased) || errors.Is(err, holdfast.ErrHeld) {
		t.Errorf("Unlock: %v", err)
	}
}

// All methods of one Hold are called at once.
func TestHoldIsConcurrent(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			f := faulty(t, store, drivertest.RandomFaults(seed, 30))
			c := newClient(t, f, nil)
			h, err := c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: time.Second})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for i := range uint64(8) {
				all.Go(func() {
					rnd := rand.New(rand.NewPCG(seed, i))
					for range 20 {
						time.Sleep(time.Duration(rnd.Int64N(int64(200 * time.Millisecond))))
						ctx, cancel := h.Bind(t.Context())
						switch n := rnd.IntN(40); {
						case n < 1:
							_ = h.Unlock(ctx)
						case n < 2:
							_ = h.UnlockAfter(ctx, time.Millisecond)
						case n < 3:
							_, _ = c.Admin().ReleaseID(ctx, h.LockID())
						case n < 15:
							_, _ = c.Admin().RenewID(ctx, h.LockID(), time.Second)
						default:
							_ = h.Renew(ctx, 0)
						}
						if h.Context().Err() == nil && h.Left() > time.Second {
							t.Errorf("an ended hold has %v left", h.Left())
						}
						cancel()
					}
				})
			}
			all.Wait()
			_ = h.Unlock(t.Context())
			if err := h.Unlock(t.Context()); err != nil && !errors.Is(err, holdfast.ErrLost) && !errors.Is(err, drivertest.ErrFault) {
				t.Errorf("Unlock: %v", err)
			}
			if h.Context().Err() == nil || h.Left() != 0 {
				t.Error("the hold has not ended")
			}
			time.Sleep(2 * time.Second)
			mustBeFree(t, store, "r")
		})
	}
}
