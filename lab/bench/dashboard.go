package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// dashboardSize is the size of the measured store.
type dashboardSize struct {
	holds, waiters int
	changes        int // per second
	records        int // in all, in the second measurement
	lasts          time.Duration
}

var (
	dashboardFull  = dashboardSize{10_000, 1000, 60, 1_000_000, time.Minute}
	dashboardSmall = dashboardSize{1000, 100, 60, 20_000, 5 * time.Second}
)

// measureDashboard measures the cost of watching the dashboard: the processor time of the
// server and of its store while a browser shows the dashboard, and that of the store without a
// browser. The first measurement has holds only; the second also has records of resources
// without holds.
func measureDashboard(ctx context.Context, dir string) (all []result) {
	size := dashboardFull
	if small {
		size = dashboardSmall
	}
	binary := buildCommand(ctx, dir)
	for _, open := range servedStores {
		all = append(all, dashboardOf(ctx, open, binary, dir, size)...)
	}
	return all
}

func dashboardOf(ctx context.Context, open func(context.Context) *servedStore, binary, dir string, size dashboardSize) []result {
	store := open(ctx)
	defer finish(store.close)
	s := serve(ctx, binary, dir, store.url, nil)
	defer finish(s.stop)
	c := newChurn(ctx, store.store, size)
	holds := fmt.Sprintf("%s, %s holds", store.name, thousands(size.holds))
	few := costOfWatching(ctx, store, s, c, size.lasts)
	check(store.copies(ctx, size.records-size.holds))
	records := fmt.Sprintf("%s, %s records", store.name, thousands(size.records))
	many := costOfWatching(ctx, store, s, c, size.lasts)
	made := fmt.Sprintf("%s waiters, %d changes a second", thousands(size.waiters), size.changes)
	return []result{
		few.ofServer(holds, made, 10), few.ofStore(holds), few.ofLook(holds),
		many.ofServer(records, made+", "+thousands(size.holds)+" holds", 10), many.ofStore(records), many.ofLook(records),
	}
}

// watching is the measured cost.
type watching struct {
	server, store, alone time.Duration // processor times; alone is the store's without a browser
	lasted               time.Duration
	seen                 int             // number of events with changes
	looks                []time.Duration // durations of looks
}

// looksTimed is how many looks this process makes itself to measure their duration.
const looksTimed = 3

// costOfWatching measures for the given time, or longer.
func costOfWatching(ctx context.Context, store *servedStore, s *served, c *churn, lasts time.Duration) (w watching) {
	for range looksTimed {
		start := time.Now()
		lookAt(ctx, store.store)
		w.looks = append(w.looks, time.Since(start))
	}
	// The server rests ten times as long as a look takes: measure long enough to include some
	// looks.
	w.lasted = max(lasts, (3 * 11 * median(w.looks)).Round(time.Second))
	_, w.alone = c.during(ctx, store, s, w.lasted)
	b := startBrowser(ctx, s)
	defer finish(b.stop)
	before := b.seen.Load()
	w.server, w.store = c.during(ctx, store, s, w.lasted)
	w.seen = int(b.seen.Load() - before)
	return w
}

// lookAt reads what a look of the server reads.
func lookAt(ctx context.Context, store driver.Store) {
	for _, err := range store.List(ctx, driver.Filter{}) {
		check(err)
	}
	for _, err := range driver.Waiters(ctx, store, driver.Filter{}) {
		check(err)
	}
}

func (w watching) share(of time.Duration) float64 { return 100 * of.Seconds() / w.lasted.Seconds() }

func (w watching) ofServer(where, what string, limit float64) result {
	return result{
		What:  where + ", holdfast serve while a browser shows them, share of a core",
		Value: w.share(w.server), Unit: "%", Limit: limit,
		Detail: fmt.Sprintf("user and system time of its process: %v in %v, with %d sights; %s",
			w.server.Round(time.Millisecond), w.lasted, w.seen, what),
	}
}

func (w watching) ofStore(where string) result {
	return result{
		What:  where + ", the store while a browser shows them, share of a core more than without",
		Value: w.share(w.store - w.alone), Unit: "%", Figure: true,
		Detail: fmt.Sprintf("user and system time of all its processes: %v in %v, and %v in as long with nobody watching",
			w.store.Round(time.Millisecond), w.lasted, w.alone.Round(time.Millisecond)),
	}
}

func (w watching) ofLook(where string) result {
	return result{
		What:  where + ", one look",
		Value: milliseconds(median(w.looks)), Unit: "ms", Figure: true,
		Detail: fmt.Sprintf("median of %d, of all holds and waiters by the store's lists; the longest %.0f ms",
			len(w.looks), milliseconds(slices.Max(w.looks))),
	}
}

// thousands formats a number with commas.
func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
