package browser

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
)

// fakeHistory is a made-up history, the oldest hold first.
type fakeHistory struct {
	mu    sync.Mutex
	since time.Time
	holds []history.Hold
}

func newFakeHistory() *fakeHistory { return &fakeHistory{since: time.Now().Add(-72 * time.Hour)} }

// held adds a hold that began that long ago, with its end.
func (p *fakeHistory) held(resource, owner string, began, lasted time.Duration, how history.How) {
	p.mu.Lock()
	defer p.mu.Unlock()
	exactly := func(ago time.Duration) history.Moment {
		return history.Moment{After: time.Now().Add(-ago), By: time.Now().Add(-ago)}
	}
	h := history.Hold{
		Number: int64(len(p.holds) + 1), Resource: resource, Ref: fmt.Sprintf("%08x", len(p.holds)), Details: driver.Details{Owner: owner, Host: "web1"},
		Began: exactly(began), How: how,
	}
	if how != "" {
		h.Ended = exactly(began - lasted)
	}
	if how == history.Forced {
		h.By, h.Reason = "ops", owner+" is gone"
	}
	p.holds = append(p.holds, h)
}

func (p *fakeHistory) Load(context.Context) (history.Saved, error) {
	return history.Saved{Bounds: history.Bounds{Since: p.since}}, nil
}

func (p *fakeHistory) Write(context.Context, []history.Hold, *history.Looks) (history.Bounds, error) {
	return history.Bounds{Since: p.since}, nil
}

func (p *fakeHistory) Close() error { return nil }

func (p *fakeHistory) Holds(_ context.Context, q history.Query) (holds []history.Hold, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range slices.Backward(p.holds) {
		if len(holds) < q.Limit && (q.Resource == "" || h.Resource == q.Resource) && (q.Before == 0 || h.Number < q.Before) &&
			(h.How == "" || !h.Ended.By.Before(q.Since)) && (!q.Losses || h.How == history.Forced || h.How == history.Lost) {
			holds = append(holds, h)
		}
	}
	return holds, nil
}

// nightlyRuns adds the runs of a nightly job. One was released by force, and one lost its lock.
func (p *fakeHistory) nightlyRuns(resource, owner string) {
	for i, minutes := range []int{11, 12, 10, 25, 11, 13, 9, 12, 18} {
		end := history.Released
		switch i {
		case 3:
			end = history.Forced
		case 8:
			end = history.Lost
		}
		p.held(resource, owner, time.Duration(9-i)*40*time.Minute, time.Duration(minutes)*time.Minute, end)
	}
}
