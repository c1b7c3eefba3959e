package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/redislock"
)

// renewals counts the calls of Renew.
type renewals struct {
	*redislock.Store
	calls atomic.Int32
}

func (r *renewals) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	r.calls.Add(1)
	return r.Store.Renew(ctx, qs)
}

// When a server is back, holders learn within a moment that their locks are gone, or
// renew them if they are not, without waiting for their next renewals, which are due
// hours later. One request of each Client is enough.
func TestHoldersLearnOfLoss(t *testing.T) {
	for name, c := range map[string]struct {
		config  []string
		restart func(*engines.RedisServer, testing.TB)
		kept    bool
	}{
		"with its data":    {[]string{"--appendonly", "yes", "--appendfsync", "always"}, (*engines.RedisServer).Restart, true},
		"without its data": {nil, (*engines.RedisServer).Empty, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := engines.NewRedis(t, c.config...)
			store := &renewals{Store: newStore(t, connect(t, options(t, server.URL)), nil)}
			locks := holdfast.New(store, &holdfast.Options{TTL: 24 * time.Hour, LeaveHolds: true})
			defer locks.Close()
			var holds []*holdfast.Hold
			for i := range 100 {
				h, err := locks.Lock(t.Context(), fmt.Sprint("r", i), nil)
				if err != nil {
					t.Fatal(err)
				}
				holds = append(holds, h)
			}
			ask.Until(t, "the Client watches", func() bool { return store.calls.Load() > 0 })
			before := store.calls.Load()
			c.restart(server, t)
			ask.Until(t, "the Client looks", func() bool { return store.calls.Load() > before })
			for _, h := range holds {
				if c.kept {
					break
				}
				select {
				case <-h.Context().Done():
					if cause := context.Cause(h.Context()); !errors.Is(cause, holdfast.ErrLost) {
						t.Errorf("%q ended with %v", h.Resource(), cause)
					}
				case <-time.After(time.Minute):
					t.Fatalf("the holder of %q is not told that it is lost", h.Resource())
				}
			}
			for _, h := range holds {
				if c.kept && h.Context().Err() != nil {
					t.Errorf("%q is lost: %v", h.Resource(), context.Cause(h.Context()))
				}
			}
			if n := store.calls.Load() - before; n != 1 {
				t.Errorf("%d batches, want 1", n)
			}
		})
	}
}
