package lock

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

// store is shared by all Locks with the same client.
type store struct {
	driver.Store
	client   eslock.Performer
	prepared atomic.Bool // the index was created or checked
}

// prepareTimeout is the time limit for creating or checking the index. A node that has just
// started needs longer to compile the scripts than the TTL of a short lock.
const prepareTimeout = 10 * time.Second

func (s *store) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	if i, ok := s.Store.(driver.Initializer); ok {
		if err := i.Init(ctx); err != nil {
			return err
		}
	}
	s.prepared.Store(true)
	return nil
}

// renewOne extends one hold, and returns the time that it has left: at least the TTL.
func (s *store) renewOne(ctx context.Context, ref driver.HoldRef, ttl time.Duration) (left time.Duration, err error) {
	results, err := s.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: ttl}})
	if err != nil {
		return 0, err
	}
	if r := results[0]; r.Left > ttl && r.Left <= driver.MaxTTL {
		ttl = r.Left // another Lock or program of the owner asked for more
	}
	return ttl, results[0].Err
}

// releaseOne releases one hold, and reports whether it existed.
func (s *store) releaseOne(ctx context.Context, q driver.ReleaseRequest) (found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience/2) // leaves room for another try
	defer cancel()
	results, err := s.Release(ctx, []driver.ReleaseRequest{q})
	if err != nil {
		return false, err
	}
	return results[0].Found, results[0].Err
}

// ownHold returns the owner's hold if it is exclusive.
func (s *store) ownHold(ctx context.Context, owner driver.HoldRef) (h driver.Status, found bool, err error) {
	for h, err := range s.List(ctx, driver.Filter{Resource: owner.Resource, LockID: owner.LockID}) {
		if err != nil || h.Mode == driver.Exclusive {
			return h, err == nil, err
		}
	}
	return h, false, nil
}

// recent has the stores of the clients of the latest Locks: a program has one or two
// clients, and makes many Locks.
var recent struct {
	mu     sync.Mutex
	stores []*store
}

// mostRecent is the number of stores in recent.
const mostRecent = 8

// storeOf returns the store of the client.
func storeOf(client eslock.Performer) (*store, error) {
	made := &store{Store: eslock.New(client, &eslock.Options{SpareRenewed: true}), client: client}
	v := reflect.ValueOf(client)
	switch {
	case !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil():
		return made, fmt.Errorf("%w: the client is nil", driver.ErrInvalid)
	case !v.Comparable():
		return made, nil
	}
	recent.mu.Lock()
	defer recent.mu.Unlock()
	if i := slices.IndexFunc(recent.stores, func(s *store) bool { return s.client == client }); i >= 0 {
		return recent.stores[i], nil
	}
	recent.stores = append(recent.stores[max(len(recent.stores)-mostRecent+1, 0):], made)
	return made, nil
}
