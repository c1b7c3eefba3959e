package main

import (
	"context"
	"os"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
)

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [flags]",
		Short: "Show live who holds what, on the whole terminal",
		Long: `Shows the holds that block others, with the time that each has left, and looks
at the store again and again. It changes nothing there.

  up, down, page up, page down, home, end   choose a hold, and scroll
  /    type a text that the holds must have in a name or comment; enter ends
       the typing, escape shows all holds again
  s    sort by resource, time left, or since when they are held
  r    look at the store now
  q    quit`,
		Args:                  noArgs,
		DisableFlagsInUseLine: true,
	}
	store := storeFlag(cmd)
	interval := intervalFlag(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := validInterval(*interval); err != nil {
			return err
		}
		if !isTerminal(os.Stdin) || !isTerminal(os.Stdout) {
			return usagef("top needs a terminal to draw on and to read keys from; holdfast status needs none")
		}
		where, err := store()
		if err != nil {
			return err
		}
		return top(cmd.Context(), where, *interval)
	}
	return cmd
}

// top shows the holds until the user has seen enough.
func top(ctx context.Context, where location, interval time.Duration) error {
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
				case !b.begun && seen.err != nil && lasting(seen.err):
					return where.failure(seen.err)
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
