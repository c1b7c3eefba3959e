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

// past is a history that a test makes up, the oldest event first.
type past struct {
	mu     sync.Mutex
	since  time.Time
	events []history.Event
}

func newPast() *past { return &past{since: time.Now().Add(-72 * time.Hour)} }

// held adds a hold that began that long ago, and how it ended.
func (p *past) held(resource, owner string, began, lasted time.Duration, end history.Kind) {
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
		return // it is held still
	}
	e.Kind, e.Held = end, lasted
	if end == history.Forced {
		e.Caller, e.Reason = "ops", owner+" is gone"
	}
	note(began-lasted, e)
}

func (p *past) Append(context.Context, []history.Event) (time.Time, error) { return p.since, nil }
func (p *past) Open(context.Context) ([]history.Open, error)               { return nil, nil }
func (p *past) KeepGaps(context.Context, []history.Gap, time.Time) error   { return nil }
func (p *past) Close() error                                               { return nil }

func (p *past) Gaps(context.Context) ([]history.Gap, time.Time, error) { return nil, time.Time{}, nil }

func (p *past) choose(limit int, chosen func(history.Event) bool) (events []history.Event, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Backward(p.events) {
		if len(events) < limit && chosen(e) {
			events = append(events, e)
		}
	}
	return events, nil
}

func (p *past) Events(_ context.Context, q history.Query) ([]history.Event, error) {
	return p.choose(q.Limit, func(e history.Event) bool {
		return (q.Resource == "" || e.Resource == q.Resource) && (q.Before == 0 || e.Number < q.Before)
	})
}

func (p *past) Losses(_ context.Context, since time.Time, limit int) ([]history.Event, error) {
	return p.choose(limit, func(e history.Event) bool { return e.Kind.Loss() && !e.At.Before(since) })
}

func (p *past) Lengths(_ context.Context, resource string, limit int) (lengths []time.Duration, err error) {
	events, err := p.choose(limit, func(e history.Event) bool { return e.Resource == resource && e.Kind == history.Released })
	for _, e := range events {
		lengths = append(lengths, e.Held)
	}
	return lengths, err
}

// nights are some runs of a job that somebody had to end once, and that was lost once.
func (p *past) nights(resource, owner string) {
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
