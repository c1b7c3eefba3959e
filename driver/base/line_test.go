package base_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast/driver/base"
)

// Urgent callers go first, other callers in the order of arrival. A caller that gives up
// delays no other.
func TestLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line base.Line
		var mu sync.Mutex
		var order []string
		note := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, what)
		}
		enter := func(ctx context.Context, name string, urgent bool) {
			go func() {
				if err := line.Enter(ctx, urgent); err != nil {
					note(name + " gave up")
					return
				}
				note(name)
				line.Leave()
			}()
			synctest.Wait()
		}
		if err := line.Enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		enter(t.Context(), "a", false)
		enter(ctx, "b", false)
		enter(t.Context(), "c", false)
		enter(t.Context(), "renewal", true)
		enter(ctx, "another", true)
		cancel()
		synctest.Wait()
		slices.Sort(order)
		line.Leave()
		synctest.Wait()
		if want := []string{"another gave up", "b gave up", "renewal", "a", "c"}; !slices.Equal(order, want) {
			t.Errorf("they came in the order %q, want %q", order, want)
		}
		if err := line.Enter(ctx, true); !errors.Is(err, context.Canceled) {
			t.Errorf("with a dead ctx: %v", err)
		}
		if err := line.Enter(t.Context(), false); err != nil {
			t.Errorf("the line is not free: %v", err)
		}
	})
}

// A turn that comes when its caller gives up is passed on.
func TestLinePassesOn(t *testing.T) {
	for range 200 {
		var line base.Line
		if err := line.Enter(t.Context(), false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- line.Enter(ctx, true) }()
		go func() { second <- line.Enter(t.Context(), false) }()
		go cancel()
		line.Leave()
		if err := <-first; err == nil {
			line.Leave()
		}
		if err := <-second; err != nil {
			t.Fatal(err)
		}
	}
}
