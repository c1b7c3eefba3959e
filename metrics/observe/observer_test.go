package observe_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/observe"
)

// sums adds samples up.
type sums struct {
	mu  sync.Mutex
	all map[string][]float64 // by metric, group and label
}

func (s *sums) record(_ context.Context, sample observe.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[string][]float64)
	}
	key := strings.Join(strings.Fields(sample.Metric+" "+sample.Group+" "+sample.Label), " ")
	s.all[key] = append(s.all[key], sample.Value)
}

// of returns the samples and their sum.
func (s *sums) of(key string) (samples []float64, sum float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, v := range s.all[key] {
		sum += v
	}
	return s.all[key], sum
}

func (s *sums) check(t *testing.T, want map[string]float64) {
	t.Helper()
	for key, want := range want {
		if _, got := s.of(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}

func gauges(o *observe.Observer) string {
	var all []string
	for _, s := range o.Gauges() {
		all = append(all, fmt.Sprintf("%s%s=%.3f", strings.TrimPrefix(s.Metric, "holdfast."), s.Group, s.Value))
	}
	return strings.Join(all, " ")
}

func lock(t *testing.T, c *holdfast.Client, resource string, o *holdfast.LockOptions) *holdfast.Hold {
	t.Helper()
	h, err := c.Lock(t.Context(), resource, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// newClient makes a Client, observed by o unless that is nil.
func newClient(t *testing.T, store *drivertest.FaultStore, o *observe.Observer) *holdfast.Client {
	opts := &holdfast.Options{NoSweep: true}
	if o != nil {
		opts.Trace = o.Trace()
	}
	c := holdfast.New(store, opts)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// outage is a store that can be cut off.
func outage(t *testing.T) (store *drivertest.FaultStore, cut func(bool)) {
	var mu sync.Mutex
	var off bool
	f := drivertest.NewFaultStore(memlock.New(nil), func(drivertest.Call) drivertest.Fault {
		mu.Lock()
		defer mu.Unlock()
		return drivertest.Fault{LoseRequest: off}
	})
	t.Cleanup(func() { _ = f.Close() })
	return f, func(to bool) {
		mu.Lock()
		defer mu.Unlock()
		off = to
	}
}

func TestSamples(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sums
		o := observe.New(nil, s.record)
		store, cut := outage(t)
		c, d := newClient(t, store, o), newClient(t, store, nil)

		if samples, _ := s.of("holdfast.losses expired"); len(samples) != 1 || samples[0] != 0 {
			t.Errorf("the counter of losses begins with %v", samples)
		}
		h := lock(t, c, "r", nil)
		time.Sleep(12 * time.Second) // one renewal
		if err := h.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := lock(t, d, "r", nil)
		_, err := c.TryLock(t.Context(), "r", nil)
		if !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "r", nil); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal(err)
		}
		if _, err := c.Lock(t.Context(), "", nil); !errors.Is(err, holdfast.ErrInvalid) {
			t.Fatal(err)
		}
		if err := other.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}

		lock(t, c, "expires", &holdfast.LockOptions{NoKeepAlive: true})
		time.Sleep(time.Minute)
		forced := lock(t, c, "forced", nil)
		if _, err := d.Admin().ForceRelease(t.Context(), "forced", forced.ID()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		late := lock(t, c, "late", nil)
		lock(t, c, "unreachable", nil)
		cut(true)
		if err := late.Unlock(t.Context()); err == nil {
			t.Fatal("the release succeeded without an answer")
		}
		time.Sleep(time.Minute)
		if _, err := c.TryLock(t.Context(), "r", nil); err == nil {
			t.Fatal("the lock was granted without an answer")
		}
		synctest.Wait()
		s.check(t, map[string]float64{
			"holdfast.acquires granted": 5, "holdfast.acquires held": 2, "holdfast.acquires lost": 0, "holdfast.acquires unknown": 1,
			"holdfast.renewals renewed": 1, "holdfast.renewals lost": 1,
			"holdfast.losses expired": 1, "holdfast.losses forced": 1, "holdfast.losses unreachable": 1,
			"holdfast.releases true": 1, "holdfast.releases false": 1,
			"holdfast.wait.duration held": 10,
		})
		if _, n := s.of("holdfast.renewals unknown"); n < 2 {
			t.Errorf("%v renewals without an answer", n)
		}
		holds, _ := s.of("holdfast.hold.duration")
		if len(holds) != 5 || holds[0] != 12 {
			t.Errorf("the holds lasted %v", holds)
		}
		for key, want := range map[string]int{"granted": 5, "unknown": 3} {
			if attempts, _ := s.of("holdfast.attempt.duration " + key); len(attempts) != want {
				t.Errorf("%d attempts %s, want %d", len(attempts), key, want)
			}
		}
	})
}

// The gauges are right between renewals and while renewals fail, even if the Trace is not
// called.
func TestGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := observe.New(nil, func(context.Context, observe.Sample) {})
		store, cut := outage(t)
		trace := o.Trace()
		block := make(chan struct{})
		trace.HoldStart = func(ctx context.Context, _ holdfast.HoldInfo) context.Context { <-block; return ctx }
		c := holdfast.New(store, &holdfast.Options{NoSweep: true, Trace: trace})
		d := newClient(t, store, nil)
		check := func(want string) {
			t.Helper()
			synctest.Wait()
			if got := gauges(o); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		check("held=0.000 waiting=0.000")
		lock(t, c, "a", nil)
		check("held=1.000 waiting=0.000 hold.left=28.125 hold.left.ratio=0.938")
		lock(t, c, "b", &holdfast.LockOptions{TTL: time.Minute})
		lock(t, c, "c", &holdfast.LockOptions{TTL: holdfast.Forever})
		lock(t, c, "d", &holdfast.LockOptions{TTL: time.Second, NoKeepAlive: true})
		lock(t, d, "e", nil)
		go func() { _, _ = c.Lock(t.Context(), "e", nil) }()
		check("held=4.000 waiting=1.000 hold.left=28.125 hold.left.ratio=0.938")
		time.Sleep(9 * time.Second)
		check("held=3.000 waiting=1.000 hold.left=19.125 hold.left.ratio=0.637")
		time.Sleep(2 * time.Second)
		check("held=3.000 waiting=1.000 hold.left=27.125 hold.left.ratio=0.754") // b is renewed later
		cut(true)
		time.Sleep(27 * time.Second)
		check("held=3.000 waiting=1.000 hold.left=0.125 hold.left.ratio=0.004")
		time.Sleep(time.Second)
		check("held=2.000 waiting=1.000 hold.left=17.250 hold.left.ratio=0.287")
		close(block)
		_ = c.Close()
		check("held=0.000 waiting=0.000")
	})
}

func TestGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sums
		first := func(resource string) string { return strings.SplitN(resource, "/", 2)[0] }
		o := observe.New(&observe.Options{Group: first}, s.record)
		store, _ := outage(t)
		c := newClient(t, store, o)
		lock(t, c, "jobs/1", nil)
		lock(t, c, "jobs/2", nil)
		h := lock(t, c, "leader", nil)
		if err := h.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.check(t, map[string]float64{
			"holdfast.acquires jobs granted": 2, "holdfast.acquires leader granted": 1, "holdfast.acquires granted": 0,
			"holdfast.releases leader true": 1, "holdfast.losses jobs forced": 0,
		})
		want := "heldjobs=2.000 waitingjobs=0.000 hold.leftjobs=28.125 hold.left.ratiojobs=0.938 heldleader=0.000 waitingleader=0.000"
		if got := gauges(o); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// Each metric and each of its labels is used, and no other.
func TestMetrics(t *testing.T) {
	names := make(map[string]bool)
	for _, m := range observe.Metrics() {
		if names[m.Name] || m.Help == "" || m.Unit == "" || (m.Label == "") != (len(m.Values) == 0) ||
			(m.Kind == observe.Histogram) != (len(m.Bounds) > 0) || !slices.IsSorted(m.Bounds) {
			t.Errorf("%+v", m)
		}
		names[m.Name] = true
	}
	for _, err := range []error{
		nil, errors.New("other"), holdfast.ErrHeld, holdfast.ErrTTLTooShort, context.Canceled,
		&holdfast.LostError{Cause: holdfast.ErrForced}, &holdfast.LostError{Cause: fmt.Errorf("%w: x", holdfast.ErrUnreachable)},
	} {
		for _, m := range observe.Metrics() {
			if m.Name == observe.Acquires && !slices.Contains(m.Values, observe.Outcome(err)) {
				t.Errorf("Outcome of %v is %q", err, observe.Outcome(err))
			}
			if cause := observe.Cause(err); m.Name == observe.Losses && cause != "" && !slices.Contains(m.Values, cause) {
				t.Errorf("Cause of %v is %q", err, cause)
			}
		}
	}
}

// A call whose grants all come too late counts as lost. Its attempts count as granted,
// because the store has granted them.
func TestTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sums
		o := observe.New(nil, s.record)
		store := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			if c.Op != drivertest.Acquire {
				return drivertest.Fault{}
			}
			reply := make(chan struct{})
			time.AfterFunc(950*time.Millisecond, func() { close(reply) })
			return drivertest.Fault{HoldReply: reply}
		})
		t.Cleanup(func() { _ = store.Close() })
		c := newClient(t, store, o)
		if _, err := c.Lock(t.Context(), "r", &holdfast.LockOptions{TTL: time.Second}); !errors.Is(err, holdfast.ErrTTLTooShort) {
			t.Fatal(err)
		}
		synctest.Wait()
		s.check(t, map[string]float64{"holdfast.acquires lost": 1, "holdfast.acquires granted": 0})
		if attempts, _ := s.of("holdfast.attempt.duration granted"); len(attempts) != 3 {
			t.Errorf("%d attempts granted, want 3", len(attempts))
		}
	})
}

// hung is a Handler that does not return before the test ends.
type hung struct {
	slog.Handler
	until chan struct{}
}

func (h hung) Enabled(context.Context, slog.Level) bool  { return true }
func (h hung) Handle(context.Context, slog.Record) error { <-h.until; return nil }

// The gauges are right even if the Logger, or a function of another Trace, hangs from its
// first call on.
func TestGaugesWhileOthersHang(t *testing.T) {
	for _, name := range []string{"Logger", "Trace"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := observe.New(nil, func(context.Context, observe.Sample) {})
				until := make(chan struct{})
				opts := &holdfast.Options{NoSweep: true, Trace: o.Trace()}
				if name == "Logger" {
					opts.Logger = slog.New(hung{until: until})
				} else {
					slow := func(ctx context.Context, _ holdfast.AttemptInfo) context.Context { <-until; return ctx }
					opts.Trace = holdfast.Traces(&holdfast.Trace{AttemptStart: slow}, opts.Trace)
				}
				store, _ := outage(t)
				c, d := holdfast.New(store, opts), newClient(t, store, nil)
				lock(t, c, "a", nil)
				lock(t, d, "b", nil)
				go func() { _, _ = c.Lock(t.Context(), "b", nil) }()
				synctest.Wait()
				if got, want := gauges(o), "held=1.000 waiting=1.000 hold.left=28.125 hold.left.ratio=0.938"; got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				close(until)
				_ = c.Close()
			})
		})
	}
}

// Calls that Close ends, and calls whose ctx had ended before, say nothing about the store.
func TestNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sums
		o := observe.New(nil, s.record)
		never := make(chan struct{})
		defer close(never)
		store := drivertest.NewFaultStore(memlock.New(nil), func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Acquire && c.Refs[0].Resource == "silent" {
				return drivertest.Fault{HoldRequest: never}
			}
			return drivertest.Fault{}
		})
		c, d := newClient(t, store, o), newClient(t, store, nil)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for range 2 {
			_, _ = c.Lock(ended, "free", nil)
			_, _ = c.TryLock(ended, "free", nil)
		}
		lock(t, d, "r", nil)
		go func() { _, _ = c.Lock(t.Context(), "r", nil) }()
		go func() { _, _ = c.Lock(t.Context(), "silent", nil) }()
		synctest.Wait()
		_ = c.Close()
		synctest.Wait()
		for _, m := range []string{observe.Acquires, observe.Wait, observe.Attempt} {
			if _, n := s.of(m + " unknown"); n != 0 {
				t.Errorf("%s: %v unknown", m, n)
			}
		}
		for key, all := range s.all {
			if strings.HasPrefix(key, observe.Wait) || strings.HasPrefix(key, observe.Attempt) && key != observe.Attempt+" held" {
				t.Errorf("%s: %v", key, all)
			}
		}
	})
}
