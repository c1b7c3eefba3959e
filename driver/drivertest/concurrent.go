package drivertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Judge accepts the outcomes of many concurrent requests by two handles.
func concurrentHistory(b *bench) {
	start := time.Now()
	clock, coarse := func() time.Duration { return time.Since(start) }, time.Millisecond
	if b.Now != nil { // the clock stands still: holds end only by release
		clock, coarse = func() time.Duration { return 0 }, 0
	}
	recorder := NewRecorder(b.Store, clock, coarse)
	recorders := []*Recorder{recorder, recorder.Beside(b.other())}
	shared := b.Store.Traits().Shared
	var all sync.WaitGroup
	for worker := range 8 {
		rnd := rand.New(rand.NewPCG(uint64(worker), 2))
		store := recorders[worker%len(recorders)]
		all.Go(func() {
			id := fmt.Sprint("worker ", worker)
			for range 40 {
				q := b.request(fmt.Sprint("r", rnd.IntN(2)), id)
				if shared && rnd.IntN(2) == 0 {
					q = q.shared(rnd.IntN(4))
				}
				g, err := store.Acquire(b.t.Context(), driver.AcquireRequest(q))
				if errors.Is(err, driver.ErrHeld) {
					continue
				}
				if err != nil {
					b.t.Errorf("acquire: %v", err)
					return
				}
				ref := driver.HoldRef{Resource: q.Resource, LockID: id, HoldID: q.HoldID, Token: g.Token}
				if _, err := store.Renew(b.t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: b.long}}); err != nil {
					b.t.Errorf("renew: %v", err)
				}
				if _, err := store.Release(b.t.Context(), []driver.ReleaseRequest{{HoldRef: ref}}); err != nil {
					b.t.Errorf("release: %v", err)
				}
			}
		})
	}
	all.Wait()
	events := recorder.Events()
	if b.Store.Traits().Fencing == driver.FencingClock {
		// Two tokens of one millisecond may be equal. The hold IDs distinguish the holds.
		for i := range events {
			events[i].Ref.Token = 0
		}
	}
	for _, wrong := range Judge(events) {
		b.t.Error(wrong)
	}
}
