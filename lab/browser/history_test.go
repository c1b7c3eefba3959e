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

// fakeHistory is a made-up history, the oldest event first.
type fakeHistory struct {
	mu     sync.Mutex
	since  time.Time
	events []history.Event
}

func newFakeHistory() *fakeHistory { return &fakeHistory{since: time.Now().Add(-72 * time.Hour)} }

// held adds a hold that began that long ago, with its end.
func (p *fakeHistory) held(resource, owner string, began, lasted time.Duration, end history.Kind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := history.Event{
		Kind: history.Granted, Resource: resource, Ref: fmt.Sprintf("%08x", len(p.events)), Details: driver.Details{Owner: owner, Host: "web1"},
		RenewedAgo: driver.Unknown,
	}
	note := func(ago time.Duration, e history.Event) {
		e.Number, e.At = int64(len(p.events)+1), time.Now().Add(-ago)
		p.events = append(p.events, e)
	}
	note(began, e)
	if end == "" {
		return // still held
	}
	e.Kind, e.Held = end, lasted
	if end == history.Forced {
		e.Caller, e.Reason = "ops", owner+" is gone"
	}
	note(began-lasted, e)
}

func (p *fakeHistory) Append(context.Context, []history.Event) (time.Time, error) {
	return p.since, nil
}
func (p *fakeHistory) Open(context.Context) ([]history.Open, error)             { return nil, nil }
func (p *fakeHistory) KeepGaps(context.Context, []history.Gap, time.Time) error { return nil }
func (p *fakeHistory) Close() error                                             { return nil }

func (p *fakeHistory) Gaps(context.Context) ([]history.Gap, time.Time, error) {
	return nil, time.Time{}, nil
}

func (p *fakeHistory) choose(limit int, chosen func(history.Event) bool) (events []history.Event, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Backward(p.events) {
		if len(events) < limit && chosen(e) {
			events = append(events, e)
		}
	}
	return events, nil
}

func (p *fakeHistory) Events(_ context.Context, q history.Query) ([]history.Event, error) {
	return p.choose(q.Limit, func(e history.Event) bool {
		return (q.Resource == "" || e.Resource == q.Resource) && (q.Before == 0 || e.Number < q.Before)
	})
}

func (p *fakeHistory) Losses(_ context.Context, since time.Time, limit int) ([]history.Event, error) {
	return p.choose(limit, func(e history.Event) bool { return e.Kind.Loss() && !e.At.Before(since) })
}

func (p *fakeHistory) Lengths(_ context.Context, resource string, limit int) (lengths []time.Duration, err error) {
	events, err := p.choose(limit, func(e history.Event) bool { return e.Resource == resource && e.Kind == history.Released })
	for _, e := range events {
		lengths = append(lengths, e.Held)
	}
	return lengths, err
}

// nightlyRuns adds the runs of a nightly job. One was released by force, and one lost its lock.
func (p *fakeHistory) nightlyRuns(resource, owner string) {
	for i, minutes := range []int{11, 12, 10, 25, 11, 13, 9, 12, 18} {
		end := history.Released
		switch i {
		case 3:
			end = history.Forced
		case 8:
			end = history.Expired
		}
		p.held(resource, owner, time.Duration(9-i)*40*time.Minute, time.Duration(minutes)*time.Minute, end)
	}
}
