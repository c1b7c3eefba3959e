package latency_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/latency"
)

// op returns what the log has of an operation.
func op(t *testing.T, l *latency.Log, name string) latency.Op {
	t.Helper()
	for _, o := range l.Ops() {
		if o.Name == name {
			return o
		}
	}
	return latency.Op{}
}

func TestQuantiles(t *testing.T) {
	l := latency.New()
	for i := range 1000 {
		l.StoreCall(t.Context(), "renew", time.Duration(i+1)*time.Millisecond, nil)
	}
	o := op(t, l, "renew")
	for name, q := range map[string]struct{ got, exact time.Duration }{
		"half": {o.Half, 500 * time.Millisecond}, "99 of 100": {o.Most, 990 * time.Millisecond}, "slowest": {o.Slowest, time.Second},
	} {
		if q.got < q.exact || q.got > q.exact*6/5 {
			t.Errorf("%s took %v, and should be up to a fifth more than %v", name, q.got, q.exact)
		}
	}
	if o.Calls != 1000 || o.Failed != 0 || o.Slots[latency.Slots-1] != o.Span {
		t.Errorf("got %+v", o.Span)
	}
}

// Times of all sizes are at most a fifth too long, and never too short.
func TestSizes(t *testing.T) {
	for _, took := range []time.Duration{
		0, 1, 50 * time.Microsecond, 50*time.Microsecond + 1, 100 * time.Microsecond, 119 * time.Microsecond, time.Millisecond, time.Second,
		100 * time.Second, 110 * time.Second, 24 * time.Hour,
	} {
		l := latency.New()
		l.StoreCall(t.Context(), "list", took, nil)
		l.StoreCall(t.Context(), "list", 48*time.Hour, nil)
		got := op(t, l, "list").Half
		if got < took || got > max(took*6/5, 50*time.Microsecond) && took < 100*time.Second {
			t.Errorf("%v became %v", took, got)
		}
	}
}

func TestTimeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := latency.New()
		call := func() { l.StoreCall(t.Context(), "renew", time.Millisecond, nil) }
		call()
		time.Sleep(latency.SlotTime)
		call()
		call()
		o := op(t, l, "renew")
		if o.Calls != 3 || o.Slots[latency.Slots-1].Calls != 2 || o.Slots[latency.Slots-2].Calls != 1 {
			t.Errorf("got %+v", o)
		}
		time.Sleep((latency.Slots - 1) * latency.SlotTime)
		if o := op(t, l, "renew"); o.Calls != 2 || o.Slots[0].Calls != 2 {
			t.Errorf("after a quarter of an hour: %+v", o)
		}
		call() // in the place of the first one
		if o := op(t, l, "renew"); o.Calls != 3 {
			t.Errorf("after one more: %+v", o.Span)
		}
		time.Sleep(24 * time.Hour)
		if ops := l.Ops(); len(ops) != 0 || l.Answered().IsZero() {
			t.Errorf("after a day: %+v", ops)
		}
	})
}

func TestFailing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := latency.New()
		for i, c := range []struct {
			err    error
			failed int
		}{
			{nil, 0},
			{fmt.Errorf("no: %w", driver.ErrHeld), 0},
			{context.Canceled, 0},
			{errors.New("dial"), 1},
			{context.DeadlineExceeded, 2},
			{context.Canceled, 2},
		} {
			time.Sleep(time.Second)
			l.StoreCall(t.Context(), "acquire", 0, c.err)
			if o := op(t, l, "acquire"); o.Failed != c.failed {
				t.Errorf("after call %d: %d failed", i, o.Failed)
			}
		}
		failing, answered := l.Answers()
		if since := time.Since(failing); since != 2*time.Second {
			t.Errorf("it says that the store has failed for %v", since)
		}
		if since := time.Since(answered); since != 4*time.Second {
			t.Errorf("it says that the store has answered %v ago", since)
		}
		l.StoreCall(t.Context(), "renew", 0, nil)
		if failing, _ := l.Answers(); !failing.IsZero() {
			t.Errorf("after an answer, it fails since %v", failing)
		}
	})
}

func TestManyAtOnce(t *testing.T) {
	l := latency.New()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 1000 {
				l.StoreCall(t.Context(), fmt.Sprint(i%2), time.Millisecond, nil)
				l.Ops()
			}
		})
	}
	all.Wait()
	if n := op(t, l, "0").Calls + op(t, l, "1").Calls; n != 8000 {
		t.Errorf("%d calls", n)
	}
}

// It is called for each call of the store.
func TestAllocatesNothing(t *testing.T) {
	l := latency.New()
	l.StoreCall(t.Context(), "renew", time.Millisecond, nil)
	if n := testing.AllocsPerRun(1000, func() { l.StoreCall(t.Context(), "renew", time.Millisecond, nil) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

func BenchmarkStoreCall(b *testing.B) {
	l := latency.New()
	b.ReportAllocs()
	for b.Loop() {
		l.StoreCall(b.Context(), "renew", time.Millisecond, nil)
	}
}
