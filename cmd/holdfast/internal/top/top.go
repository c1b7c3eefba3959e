// Package top shows the holds of a store live, on the whole terminal.
package top

import (
	"context"
	"time"

	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/statuscmd"
)

// Run shows the holds until the user quits.
func Run(ctx context.Context, where location.Location, all bool, interval time.Duration) error {
	ctx, stop := statuscmd.UntilInterrupted(ctx)
	now := make(chan struct{}, 1)
	l := statuscmd.Looker{Where: where, All: all}
	sights := l.Watch(ctx, func() holdfast.Filter { return holdfast.Filter{} },
		statuscmd.Rhythm{Interval: interval, Sparing: true, Now: now})
	defer statuscmd.Drain(sights)
	defer stop()
	b := &board{where: where, interval: interval}
	return screen.Use(func(s tcell.Screen) error {
		clock := time.NewTicker(time.Second) // for the times left to count down
		defer clock.Stop()
		for {
			b.draw(s, time.Now())
			select {
			case seen, ok := <-sights:
				switch {
				case !ok:
					return nil
				case seen.Panic != nil:
					panic(seen.Panic)
				case seen.Lasting:
					return where.Failure(seen.Err)
				}
				b.see(seen)
			case ev := <-s.EventQ():
				key, ok := ev.(*tcell.EventKey)
				if typed := ok && b.typing && key.Key() != tcell.KeyCtrlC; !typed && screen.Quits(s, ev) {
					return nil
				}
				if ok && b.handle(key) {
					select {
					case now <- struct{}{}:
					default: // a look is due anyway
					}
				}
			case <-clock.C:
			case <-ctx.Done():
				return nil
			}
		}
	})
}
