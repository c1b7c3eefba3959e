package measure

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// after is closed when d has passed.
func after(d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	time.AfterFunc(d, func() { close(c) })
	return c
}

// slow lets acquires and releases reach a store in memory only after a time.
func slow(t *testing.T, acquire, release time.Duration) *drivertest.FaultStore {
	return disturbed(t, func(c drivertest.Call) drivertest.Fault {
		switch c.Op {
		case drivertest.Acquire:
			return drivertest.Fault{HoldRequest: after(acquire)}
		case drivertest.Release:
			return drivertest.Fault{HoldRequest: after(release)}
		}
		return drivertest.Fault{}
	})
}

func disturbed(t *testing.T, decide func(drivertest.Call) drivertest.Fault) *drivertest.FaultStore {
	f := drivertest.NewFaultStore(memlock.New(nil), decide)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

// opens returns what makes Clients of one store.
func opens(f *drivertest.FaultStore) Open {
	return func(_ context.Context, opts *holdfast.Options) (*holdfast.Client, error) {
		return holdfast.New(f, opts), nil
	}
}

// check ends the test if there is an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// mustBeFree fails if anything is held.
func mustBeFree(t *testing.T, f *drivertest.FaultStore) {
	t.Helper()
	for s, err := range f.List(context.Background(), holdfast.Filter{}) {
		t.Errorf("%q is held (error %v)", s.Resource, err)
	}
}

// inBubble runs a test whose time passes as soon as all wait for it.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func mustBe(t *testing.T, what string, s *Samples, count int, each time.Duration) {
	t.Helper()
	if s.Count() != count || s.Quantile(1) != each || s.Quantile(0.5) != each {
		t.Errorf("%s: %d samples, median %v, longest %v; want %d of %v",
			what, s.Count(), s.Quantile(0.5), s.Quantile(1), count, each)
	}
}

func TestLoad(t *testing.T) {
	inBubble(t, "each its own", func(t *testing.T) {
		f := slow(t, 3*time.Millisecond, 2*time.Millisecond)
		r, err := Bench{Open: opens(f), Clients: 3}.load(t.Context(), time.Second, "r")
		check(t, err)
		mustBe(t, "acquire", r.Acquire, 600, 3*time.Millisecond)
		mustBe(t, "release", r.Release, 600, 2*time.Millisecond)
		mustBe(t, "pair", r.Pair, 600, 5*time.Millisecond)
		if r.PerSecond != 600 {
			t.Errorf("%v per second", r.PerSecond)
		}
		mustBeFree(t, f)
	})
	inBubble(t, "all the same", func(t *testing.T) {
		f := slow(t, 3*time.Millisecond, 2*time.Millisecond)
		began := time.Now()
		r, err := Bench{Open: opens(f), Clients: 3, Contend: true}.load(t.Context(), time.Second, "r")
		check(t, err)
		// A lock is held for 2 ms at least: the release is on its way for so long.
		if n := r.Pair.Count(); n < 50 || n > 500 {
			t.Errorf("%d locks in a second", n)
		}
		if time.Since(began) > 1500*time.Millisecond {
			t.Errorf("ended after %v", time.Since(began))
		}
		mustBeFree(t, f)
	})
	inBubble(t, "one fails", func(t *testing.T) {
		broken := errors.New("the disk is full")
		f := disturbed(t, func(c drivertest.Call) drivertest.Fault {
			switch {
			case c.Op == drivertest.Acquire && c.N > 20 && c.Refs[0].Resource == "r2":
				return drivertest.Fault{LoseRequest: true, Err: errors.Join(holdfast.ErrUnusable, broken)}
			case c.Op == drivertest.Acquire:
				return drivertest.Fault{HoldRequest: after(time.Millisecond)}
			}
			return drivertest.Fault{}
		})
		began := time.Now()
		_, err := Bench{Open: opens(f), Clients: 2}.load(t.Context(), time.Hour, "r")
		if !errors.Is(err, broken) {
			t.Errorf("got error %v", err)
		}
		if time.Since(began) > time.Minute {
			t.Errorf("ended after %v", time.Since(began))
		}
		mustBeFree(t, f)
	})
	inBubble(t, "interrupted", func(t *testing.T) {
		f := slow(t, 3*time.Millisecond, 2*time.Millisecond)
		end := errors.New("interrupted")
		for _, contend := range []bool{false, true} {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(end) })
			began := time.Now()
			_, err := Bench{Open: opens(f), Clients: 2, Contend: contend}.load(ctx, time.Hour, "r")
			if !errors.Is(err, end) {
				t.Errorf("got error %v", err)
			}
			if time.Since(began) > 2*time.Second {
				t.Errorf("ended after %v", time.Since(began))
			}
			mustBeFree(t, f)
		}
	})
	t.Run("cannot be opened", func(t *testing.T) {
		broken := errors.New("no route")
		open := func(context.Context, *holdfast.Options) (*holdfast.Client, error) { return nil, broken }
		if _, err := (Bench{Open: open, Clients: 1}).load(t.Context(), time.Hour, "r"); !errors.Is(err, broken) {
			t.Errorf("got error %v", err)
		}
	})
}

func TestHandOvers(t *testing.T) {
	three := func(n int, _ time.Duration) bool { return n < 3 }
	inBubble(t, "by wake-ups", func(t *testing.T) {
		f := slow(t, 3*time.Millisecond, 2*time.Millisecond)
		took, err := HandOvers(t.Context(), opens(f), "r", three)
		check(t, err)
		mustBe(t, "hand-over", took, 3, 5*time.Millisecond)
		mustBeFree(t, f)
	})
	inBubble(t, "without wake-ups", func(t *testing.T) {
		f := disturbed(t, func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Watch {
				return drivertest.Fault{HoldSignals: make(chan struct{})}
			}
			return drivertest.Fault{}
		})
		took, err := HandOvers(t.Context(), opens(f), "r", three)
		check(t, err)
		if took.Count() != 3 || took.Quantile(0) < 900*time.Millisecond {
			t.Errorf("%d hand-overs, the quickest in %v", took.Count(), took.Quantile(0))
		}
		mustBeFree(t, f)
	})
	inBubble(t, "for some time", func(t *testing.T) {
		f := slow(t, 30*time.Millisecond, 20*time.Millisecond)
		began := time.Now()
		took, err := HandOvers(t.Context(), opens(f), "r", func(_ int, spent time.Duration) bool { return spent < time.Second })
		check(t, err)
		if d := time.Since(began); d < time.Second || d > 1500*time.Millisecond || took.Count() < 5 {
			t.Errorf("%d in %v", took.Count(), d)
		}
	})
	inBubble(t, "interrupted", func(t *testing.T) {
		f := slow(t, 3*time.Millisecond, 2*time.Millisecond)
		end := errors.New("interrupted")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(end) })
		took, err := HandOvers(ctx, opens(f), "r", func(int, time.Duration) bool { return true })
		if !errors.Is(err, end) {
			t.Errorf("got error %v", err)
		}
		if took.Count() == 0 {
			t.Error("nothing was measured before")
		}
		mustBeFree(t, f)
	})
	inBubble(t, "one store each", func(t *testing.T) {
		open := func(_ context.Context, opts *holdfast.Options) (*holdfast.Client, error) {
			return holdfast.New(memlock.New(nil), opts), nil
		}
		if _, err := HandOvers(t.Context(), open, "r", three); !errors.Is(err, holdfast.ErrUnusable) {
			t.Errorf("got error %v", err)
		}
	})
}
