package main

import (
	"context"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
)

// top shows the holds until the user has seen enough.
func top(ctx context.Context, where location.Location, interval time.Duration) error {
	ctx, stop := untilInterrupted(ctx)
	now := make(chan struct{}, 1)
	l := looker{where: where}
	sights := l.watch(ctx, func() holdfast.Filter { return holdfast.Filter{} },
		rhythm{interval: interval, sparing: true, now: now})
	defer drained(sights)
	defer stop()
	b := &board{where: where, interval: interval}
	return onScreen(func(s tcell.Screen) error {
		clock := time.NewTicker(time.Second) // the times left count down
		defer clock.Stop()
		for {
			b.draw(s, time.Now())
			select {
			case seen, ok := <-sights:
				switch {
				case !ok:
					return nil
				case seen.panic != nil:
					panic(seen.panic)
				case !b.begun && seen.err != nil && location.Lasting(seen.err):
					return where.Failure(seen.err)
				}
				b.see(seen)
			case ev := <-s.EventQ():
				switch b.handle(ev) {
				case quitKey:
					return nil
				case suspendKey:
					suspend(s)
				case lookKey:
					select {
					case now <- struct{}{}:
					default: // it will, anyway
					}
				}
			case <-clock.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}
