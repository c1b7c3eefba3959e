package holdfast_test

import (
	"context"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
)

// The cost of the Client itself: the store is a map.
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

// One cancellable context, as a unit for BenchmarkPair.
func BenchmarkCancelPair(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, cancel := context.WithCancelCause(context.Background())
		cancel(nil)
	}
}
