package drivertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var churning = []subtest{
	{"renewals_under_churn", renewalsUnderChurn},
}

// renewalTime is how long a renewal may take. With the default TTL of 30 s a Client has about
// 18 s for it.
const renewalTime = 18 * time.Second

// Long shared holds of one resource live on while other holders come and go there, from as
// many handles as possible. If a store decides about their renewals on a record that another
// change has replaced since, and then tries again, it never succeeds: short changes are
// faster than a change of many holds.
func renewalsUnderChurn(b *bench) {
	b.needsShared()
	const holds, churners, batches = 200, 8, 5
	renewals := make([]driver.RenewRequest, holds)
	for i := range renewals {
		h := b.acquire(b.request("r", fmt.Sprint("stays ", i)).shared(0))
		renewals[i] = driver.RenewRequest{HoldRef: h.HoldRef, TTL: 2 * b.long}
	}
	ctx, stop := context.WithCancel(b.t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer stop()
	warm := make(chan struct{}, churners)
	for i := range churners {
		s := b.other()
		all.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := b.comeAndGo(s, fmt.Sprint("passes ", i)); err != nil {
					b.t.Errorf("while %d others hold it: %v", holds, err)
					warm <- struct{}{}
					return
				}
				if n == 0 {
					warm <- struct{}{}
				}
			}
		})
	}
	for range churners {
		<-warm
	}
	for n := range batches {
		within, cancel := context.WithTimeout(b.t.Context(), renewalTime)
		rs, err := b.Store.Renew(within, renewals)
		cancel()
		if err != nil || len(rs) != holds {
			b.t.Fatalf("batch %d of %d renewals gave %d results and error %v", n, holds, len(rs), err)
		}
		failed := 0
		for i, r := range rs {
			if r.Err == nil {
				continue
			}
			if failed++; failed == 1 {
				b.t.Errorf("batch %d: renewal %d: %v", n, i, r.Err)
			}
		}
		if failed > 0 {
			b.t.Fatalf("batch %d: %d of %d renewals failed while others came and went", n, failed, holds)
		}
	}
	stop()
	all.Wait()
	if n := len(b.list(driver.Filter{Resource: "r"})); n != holds {
		b.t.Errorf("%d holds are left, want the %d that were renewed", n, holds)
	}
}

// comeAndGo acquires and releases a shared hold.
func (b *bench) comeAndGo(s driver.Store, lockID string) error {
	q := b.request("r", lockID).shared(0)
	g, err := s.Acquire(b.t.Context(), driver.AcquireRequest(q))
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	rs, err := s.Release(b.t.Context(), []driver.ReleaseRequest{{HoldRef: driver.HoldRef{
		Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token,
	}}})
	if err == nil {
		err = rs[0].Err
	}
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}
