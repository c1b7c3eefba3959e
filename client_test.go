package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestSmoke(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memlock.New(nil)
		c := holdfast.New(s, nil)
		defer c.Close()
		d := holdfast.New(s, nil)
		defer d.Close()
		h, err := c.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.TryLock(t.Context(), "r", nil); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal(err)
		}
		got := make(chan *holdfast.Hold)
		go func() {
			h, err := d.Lock(t.Context(), "r", nil)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		time.Sleep(5 * time.Minute)
		if h.Context().Err() != nil {
			t.Fatal(context.Cause(h.Context()))
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		h2 := <-got
		if h2.Token() <= h.Token() {
			t.Fatal("token")
		}
		if err := h2.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkPair(b *testing.B) {
	c := holdfast.New(memlock.New(nil), nil)
	defer c.Close()
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		h, err := c.Lock(ctx, "r", nil)
		if err != nil {
			b.Fatal(err)
		}
		if err := h.Unlock(ctx); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCancelPair(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, cancel := context.WithCancelCause(context.Background())
		cancel(nil)
	}
}
