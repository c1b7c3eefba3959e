package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// A hold's context is made when a caller asks for it. A caller that asks after the end of the
// hold gets a context that has ended with the same cause.
func TestContextAskedForLate(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error
		want error
	}{
		"unlocked": {func(ctx context.Context, _ *holdfast.Client, h *holdfast.Hold) error {
			return h.Unlock(ctx)
		}, holdfast.ErrReleased},
		"released by its lock ID": {func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ReleaseID(ctx, h.LockID())
			return err
		}, holdfast.ErrReleased},
		"released by force": {func(ctx context.Context, c *holdfast.Client, h *holdfast.Hold) error {
			_, err := c.Admin().ForceRelease(ctx, h.Resource(), h.ID())
			return err
		}, holdfast.ErrForced},
		"expired": {func(context.Context, *holdfast.Client, *holdfast.Hold) error {
			time.Sleep(holdfast.DefaultTTL)
			return nil
		}, holdfast.ErrExpired},
		"closed": {func(_ context.Context, c *holdfast.Client, _ *holdfast.Hold) error {
			return c.Close()
		}, holdfast.ErrClosed},
	} {
		inBubble(t, name, func(t *testing.T) {
			type key struct{}
			acquiring, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
			client := newClient(t, memlock.New(nil), nil)
			options := &holdfast.LockOptions{NoKeepAlive: true}
			early, err := client.Lock(acquiring, "early", options)
			if err != nil {
				t.Fatal(err)
			}
			late, err := client.Lock(acquiring, "late", options)
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			before := early.Context()
			if before.Err() != nil {
				t.Fatalf("ended before its hold: %v", context.Cause(before))
			}
			for _, h := range []*holdfast.Hold{early, late} {
				if err := c.end(t.Context(), client, h); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			for _, ctx := range []context.Context{before, early.Context(), late.Context()} {
				if cause := context.Cause(ctx); ctx.Err() == nil || !errors.Is(cause, c.want) {
					t.Errorf("the cause is %v, want %v", cause, c.want)
				}
				if ctx.Value(key{}) != "value" {
					t.Error("the values of the acquire's ctx are gone")
				}
			}
		})
	}
}

// A process that was stopped beyond the deadline continues before its timer fires. Contexts
// that are obtained then have ended; contexts obtained earlier end soon after.
func TestContextAfterAStop(t *testing.T) {
	for name, ask := range map[string]func(h *holdfast.Hold) (context.Context, context.CancelFunc){
		"Bind":    func(h *holdfast.Hold) (context.Context, context.CancelFunc) { return h.Bind(context.Background()) },
		"Context": func(h *holdfast.Hold) (context.Context, context.CancelFunc) { return h.Context(), func() {} },
	} {
		for _, early := range []bool{false, true} {
			inBubble(t, fmt.Sprintf("%s/%v", name, early), func(t *testing.T) {
				machine := newSleeper()
				client := newClient(t, memlock.New(nil), holdfast.WithClock(machine.clock, nil))
				h, err := client.Lock(t.Context(), "r", nil)
				if err != nil {
					t.Fatal(err)
				}
				var before context.Context // obtained earlier, as a worker has it
				if early {
					bound, cancel := h.Bind(t.Context())
					defer cancel()
					before = bound
				}
				machine.sleep(holdfast.DefaultTTL)
				after, cancel := ask(h)
				defer cancel()
				if cause := context.Cause(after); after.Err() == nil || !errors.Is(cause, holdfast.ErrExpired) {
					t.Errorf("the cause is %v, want %v", cause, holdfast.ErrExpired)
				}
				synctest.Wait()
				if early && !errors.Is(context.Cause(before), holdfast.ErrExpired) {
					t.Errorf("the cause of an earlier context is %v, want %v", context.Cause(before), holdfast.ErrExpired)
				}
				if err := h.Unlock(t.Context()); !errors.Is(err, holdfast.ErrExpired) {
					t.Errorf("Unlock: %v, want %v", err, holdfast.ErrExpired)
				}
			})
		}
	}
}
