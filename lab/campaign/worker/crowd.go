package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// crowd keeps many shared holds of one resource while others come and go. On a store that
// answers, it must not lose any of them, however slow the logger is.
func crowd(ctx context.Context, c Config, store driver.Store) error {
	locks := holdfast.New(store, &holdfast.Options{TTL: c.TTL, NoSweep: true, Logger: slog.New(slow{c.TTL / 10})})
	err := stay(ctx, c, locks)
	return errors.Join(err, locks.Close())
}

func stay(ctx context.Context, c Config, locks *holdfast.Client) (err error) {
	var holds []*holdfast.Hold
	for len(holds) < c.Crowd {
		h, err := locks.RLock(ctx, "crowd", nil)
		if err != nil {
			return ended(ctx, err)
		}
		holds = append(holds, h)
	}
	var churn sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		churn.Go(func() {
			for ctx.Err() == nil && errs[i] == nil {
				h, err := locks.RLock(ctx, "crowd", nil)
				if err == nil {
					err = h.Unlock(ctx)
				}
				errs[i] = ended(ctx, err)
			}
		})
	}
	<-ctx.Done()
	churn.Wait()
	lost := 0
	for _, h := range holds {
		if cause := context.Cause(h.Context()); cause != nil {
			lost, err = lost+1, cause
		}
	}
	if lost > 0 {
		err = fmt.Errorf("%d of %d shared holds were lost, the last one: %w", lost, len(holds), err)
	}
	return errors.Join(append(errs, err)...)
}

// ended returns nil if ctx has ended, otherwise err.
func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// slow is a slow slog.Handler.
type slow struct{ each time.Duration }

func (s slow) Enabled(context.Context, slog.Level) bool { return true }

func (s slow) Handle(ctx context.Context, _ slog.Record) error {
	pause(ctx, s.each)
	return nil
}

func (s slow) WithAttrs([]slog.Attr) slog.Handler { return s }
func (s slow) WithGroup(string) slog.Handler      { return s }
