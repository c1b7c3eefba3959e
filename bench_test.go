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

// The allocations of Lock and Unlock without contention, in memory.
func TestAllocations(t *testing.T) {
	const most = 15
	c := newClient(t, memlock.New(nil), nil)
	ctx := context.Background() // t.Context can be cancelled, which costs allocations
	got := testing.AllocsPerRun(1000, func() {
		h, err := c.Lock(ctx, "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Unlock(ctx); err != nil {
			t.Fatal(err)
		}
	})
	if got > most {
		t.Errorf("Lock and Unlock make %v allocations, want at most %d", got, most)
	}
	t.Logf("Lock and Unlock: %v allocations", got)
}
