package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// pathKey is the key of the values that the Start functions of pathTrace add to their ctx.
type pathKey struct{}

func inPath(ctx context.Context, name string) context.Context {
	outer, _ := ctx.Value(pathKey{}).(string)
	return context.WithValue(ctx, pathKey{}, outer+"/"+name)
}

// pathTrace records the ctx of each call. Its Start functions derive a ctx.
func pathTrace(j *journal) *holdfast.Trace {
	note := func(ctx context.Context, what string) {
		if ctx.Err() != nil {
			what += " with a ctx that has ended"
		}
		j.note("%s %v", what, ctx.Value(pathKey{}))
	}
	return &holdfast.Trace{
		AttemptStart: func(ctx context.Context, _ holdfast.AttemptInfo) context.Context { return inPath(ctx, "attempt") },
		AttemptEnd:   func(ctx context.Context, _ holdfast.AttemptInfo) { note(ctx, "attempted") },
		WaitStart:    func(ctx context.Context, _ holdfast.WaitInfo) context.Context { return inPath(ctx, "wait") },
		WaitEnd:      func(ctx context.Context, _ holdfast.WaitInfo) { note(ctx, "waited") },
		HoldStart:    func(ctx context.Context, _ holdfast.HoldInfo) context.Context { return inPath(ctx, "hold") },
		HoldEnd:      func(ctx context.Context, _ holdfast.HoldInfo) { note(ctx, "held") },
		Renewed:      func(ctx context.Context, _ holdfast.CallInfo) { note(ctx, "renewed") },
		Released:     func(ctx context.Context, _ holdfast.CallInfo) { note(ctx, "released") },
		Failed:       func(ctx context.Context, _ holdfast.FailInfo) { note(ctx, "failed") },
	}
}

// The ctx of each function comes from its Start function or from the caller, even if the
// caller's ctx has ended.
func TestTraceContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		store := memlock.New(nil)
		c, d := unswept(store, &holdfast.Options{Trace: pathTrace(&j)}), newClient(t, store, nil)
		defer c.Close()
		other := lock(t, d, "r", nil)
		ctx, cancel := context.WithCancel(inPath(t.Context(), "caller"))
		first := locking(ctx, c, "r", nil)
		synctest.Wait()
		queued := locking(ctx, c, "r", nil)
		synctest.Wait()
		unlock(t, other)
		h := (<-first).hold
		synctest.Wait() // the other is refused; they share a subscription
		cancel()
		<-queued
		time.Sleep(12 * time.Second) // beyond a renewal
		unlock(t, h)
		synctest.Wait()
		want := []string{
			"attempted /caller/attempt",
			"attempted /caller/wait/attempt", "attempted /caller/wait/attempt", "waited /caller/wait",
			"attempted /caller/wait/attempt", "waited /caller/wait", "failed /caller/wait",
			"renewed /caller/wait/hold", "held /caller/wait/hold", "released /caller/wait/hold",
		}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("a wait:\n got %q\nwant %q", got, want)
		}
		unlock(t, lock(t, c, "r", nil))
		synctest.Wait()
		want = []string{"attempted /attempt", "held /hold", "released /hold"}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("no wait:\n got %q\nwant %q", got, want)
		}
	})
}

// If the call of a Start function was left out, the functions that follow get the ctx of the
// caller.
func TestTraceContextWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		trace := pathTrace(&j)
		block := make(chan struct{})
		trace.Failed = func(context.Context, holdfast.FailInfo) { <-block }
		c := unswept(memlock.New(nil), &holdfast.Options{Trace: trace})
		defer c.Close()
		for range 10_001 {
			if _, err := c.Lock(t.Context(), "", nil); !errors.Is(err, holdfast.ErrInvalid) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		h := lock(t, c, "r", nil)
		close(block)
		synctest.Wait()
		if _, err := c.Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := j.take(), []string{"held <nil>"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		part := func(name string) *holdfast.Trace {
			return &holdfast.Trace{
				HoldStart: func(ctx context.Context, _ holdfast.HoldInfo) context.Context { return inPath(ctx, name) },
				HoldEnd:   func(ctx context.Context, _ holdfast.HoldInfo) { j.note("%s: held %v", name, ctx.Value(pathKey{})) },
			}
		}
		none := &holdfast.Trace{HoldStart: func(context.Context, holdfast.HoldInfo) context.Context { return nil }}
		only := &holdfast.Trace{Released: func(ctx context.Context, _ holdfast.CallInfo) { j.note("released %v", ctx.Value(pathKey{})) }}
		c := newClient(t, memlock.New(nil), &holdfast.Options{
			Trace: holdfast.Traces(nil, part("a"), none, only, part("b"), &holdfast.Trace{}),
		})
		unlock(t, lock(t, c, "r", nil))
		synctest.Wait()
		want := []string{"a: held /a/b", "b: held /a/b", "released /a/b"}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		d := newClient(t, memlock.New(nil), &holdfast.Options{Trace: holdfast.Traces()})
		unlock(t, lock(t, d, "r", nil))
	})
}

// The times are the times of the events, however late the functions are called.
func TestTraceTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		began := time.Now()
		note := func(what string, start time.Time, took time.Duration) {
			time.Sleep(time.Second)
			j.note("%s at %v for %v", what, start.Sub(began), took)
		}
		trace := &holdfast.Trace{
			AttemptEnd: func(_ context.Context, i holdfast.AttemptInfo) { note("attempt", i.Start, i.Took) },
			WaitEnd:    func(_ context.Context, i holdfast.WaitInfo) { note("wait", i.Start, i.Took) },
			HoldEnd:    func(_ context.Context, i holdfast.HoldInfo) { note("hold", i.Start, i.Took) },
			Renewed:    func(_ context.Context, i holdfast.CallInfo) { note("renewal", i.Start, i.Took) },
			Released:   func(_ context.Context, i holdfast.CallInfo) { note("release", i.Start, i.Took) },
			Failed:     func(_ context.Context, i holdfast.FailInfo) { note("failure", i.Start, i.Took) },
		}
		store := memlock.New(nil)
		slow := faulty(t, store, delayed(drivertest.Acquire, 100*time.Millisecond), delayed(drivertest.Renew, 200*time.Millisecond),
			delayed(drivertest.Release, 300*time.Millisecond))
		c, d := newClient(t, slow, &holdfast.Options{Trace: trace}), newClient(t, store, nil)
		other := lock(t, d, "r", nil)
		if _, err := c.TryLock(t.Context(), "r", nil); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal(err)
		}
		waiting := locking(t.Context(), c, "r", nil)
		time.Sleep(900 * time.Millisecond)
		unlock(t, other)
		h := (<-waiting).hold // at 1.1 s
		if err := h.Renew(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		time.Sleep(time.Minute)
		want := []string{
			"attempt at 0s for 100ms", "failure at 0s for 100ms",
			"attempt at 100ms for 100ms",
			"attempt at 200ms for 100ms", // the subscription is effective
			"attempt at 1s for 100ms", "wait at 200ms for 900ms",
			"renewal at 1.1s for 200ms", "hold at 1.1s for 200ms", "release at 1.3s for 300ms",
		}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("\n got %q\nwant %q", got, want)
		}
	})
}

// Failed is called once for a call that is granted nothing, whatever the reason, and not for
// a call that was granted a lock.
func TestTraceFailed(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, test := range map[string]struct {
		call  func(ctx context.Context, c *holdfast.Client) error
		want  error
		asked bool
	}{
		"invalid": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ctx, "", nil)
			return err
		}, holdfast.ErrInvalid, false},
		"reentry": {func(ctx context.Context, c *holdfast.Client) error {
			return c.Do(ctx, "own", nil, func(ctx context.Context) error {
				_, err := c.Lock(ctx, "own", nil)
				return err
			})
		}, holdfast.ErrHeld, false},
		"refused": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.TryRLock(ctx, "r", nil)
			return err
		}, holdfast.ErrHeld, true},
		"a ctx that has ended": {func(_ context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ended, "r", nil)
			return err
		}, context.Canceled, false},
		"a ctx that has ended, later": {func(ctx context.Context, c *holdfast.Client) error {
			if err := c.Do(ctx, "free", nil, func(context.Context) error { return nil }); err != nil {
				return err
			}
			_, err := c.TryLock(ended, "r", nil)
			return err
		}, context.Canceled, false},
		"a ctx that ends behind others": {func(ctx context.Context, c *holdfast.Client) error {
			others, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() { _, _ = c.Lock(others, "slow", nil) }()
			synctest.Wait()
			ctx, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			_, err := c.Lock(ctx, "slow", nil)
			return err
		}, context.DeadlineExceeded, true},
		"a wait that ends": {func(ctx context.Context, c *holdfast.Client) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := c.Lock(ctx, "r", nil)
			return err
		}, context.DeadlineExceeded, true},
		"closed": {func(ctx context.Context, c *holdfast.Client) error {
			go c.Close()
			_, err := c.Lock(ctx, "r", nil)
			return err
		}, holdfast.ErrClosed, true},
		"no answer": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ctx, "silent", nil)
			return err
		}, drivertest.ErrFault, true},
		"granted": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ctx, "free", nil)
			return err
		}, nil, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			var told []error
			var asked bool
			trace := &holdfast.Trace{Failed: func(_ context.Context, i holdfast.FailInfo) {
				if i.Resource == "slow" && errors.Is(i.Err, context.Canceled) {
					return // of the first one
				}
				told, asked = append(told, i.Err), i.Asked
			}}
			store := memlock.New(nil)
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				f := drivertest.Fault{LoseRequest: len(c.Refs) > 0 && c.Refs[0].Resource == "silent"}
				if len(c.Refs) > 0 && c.Refs[0].Resource == "slow" {
					f.HoldRequest = after(5 * time.Second)
				}
				return f
			})
			c, d := newClient(t, f, &holdfast.Options{Trace: trace}), newClient(t, store, nil)
			lock(t, d, "r", nil)
			err := test.call(t.Context(), c)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			synctest.Wait()
			switch {
			case test.want == nil && len(told) != 0:
				t.Errorf("told of %v", told)
			case test.want != nil && (len(told) != 1 || !errors.Is(told[0], test.want)):
				t.Errorf("told of %v, want %v", told, test.want)
			case asked != test.asked && name != "closed": // either is possible
				t.Errorf("asked: %v", asked)
			}
		})
	}
}

// A renewal that finds its hold gone is reported before the loss.
func TestTraceRenewedLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		store := memlock.New(nil)
		c, d := newClient(t, store, &holdfast.Options{Trace: j.trace()}), newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		if _, err := d.Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Fatal(err)
		}
		mustEnd(t, h, time.Minute, holdfast.ErrForced)
		synctest.Wait()
		want := []string{
			"attempt r exclusive 0s: ok", "acquired r, alive false", "renewed r, alive false: lost",
			"held r for 10s, alive false: lost",
		}
		got := j.take()
		got[1] = want[1] // it may have been reported before
		if !slices.Equal(got, want) {
			t.Errorf("\n got %q\nwant %q", got, want)
		}
	})
}

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{LoseRequest: true}))
		c := newClient(t, f, nil)
		lock(t, c, "kept", nil)
		left := lock(t, c, "left", &holdfast.LockOptions{TTL: time.Minute, NoKeepAlive: true})
		describe := func() (all []string) {
			for _, l := range c.Admin().Live() {
				all = append(all, fmt.Sprintf("%s %v of %v %v", l.Hold.Resource(), l.Left, l.TTL, l.KeptAlive))
			}
			return all
		}
		check := func(want ...string) {
			t.Helper()
			if got := describe(); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		check("kept 28.125s of 30s true", "left 56.25s of 1m0s false")
		time.Sleep(28 * time.Second) // no renewal succeeds
		check("kept 125ms of 30s true", "left 28.25s of 1m0s false")
		time.Sleep(time.Second)
		check("left 27.25s of 1m0s false")
		unlock(t, left)
		check()
	})
}

func TestLiveForever(t *testing.T) {
	c := newClient(t, memlock.New(nil), nil)
	lock(t, c, "r", &holdfast.LockOptions{TTL: holdfast.Forever})
	lock(t, c, "s", nil)
	if got := c.Admin().Live(); len(got) != 2 || got[1].Left != holdfast.Forever || got[1].TTL != holdfast.Forever {
		t.Errorf("got %+v", got)
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		lock(t, c, "free", nil)
		h := lock(t, d, "r", nil)
		began := time.Now()
		var waits []<-chan result
		for range 3 {
			waits = append(waits, locking(t.Context(), c, "r", &holdfast.LockOptions{LockID: fmt.Sprint(len(waits))}))
			time.Sleep(time.Second)
		}
		waiting := c.Admin().Waiting()
		for i, w := range waiting {
			if w.LockID != fmt.Sprint(i) || w.Resource != "r" || w.Client != c || w.Start.Sub(began) != time.Duration(i)*time.Second {
				t.Errorf("waiter %d: %+v", i, w)
			}
		}
		if len(waiting) != 3 {
			t.Errorf("Waiting returned %d", len(waiting))
		}
		unlock(t, h)
		for i, w := range waits {
			r := <-w
			if got := len(c.Admin().Waiting()); got != 2-i {
				t.Errorf("%d wait after %d grants", got, i+1)
			}
			unlock(t, r.hold)
		}
	})
}
