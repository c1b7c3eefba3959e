package sight_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/sight"
)

// store counts the looks at it, takes its time for each, and may fail.
type store struct {
	driver.Store
	looks  int
	takes  time.Duration
	err    error
	begins []time.Time
}

func (s *store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	s.looks++
	s.begins = append(s.begins, time.Now())
	return func(yield func(driver.Status, error) bool) {
		time.Sleep(s.takes)
		if s.err != nil {
			yield(driver.Status{}, s.err)
			return
		}
		for h, err := range s.Store.List(ctx, f) {
			if !yield(h, err) {
				return
			}
		}
	}
}

func (s *store) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, s.Store, f)
}

func hold(t *testing.T, s driver.Store, resource string) {
	t.Helper()
	_, err := s.Acquire(t.Context(), driver.AcquireRequest{
		Resource: resource, LockID: "lock", HoldID: driver.NewHoldID(), TTL: 24 * time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// in runs the test in a bubble, with a Looker at a store that has two holds.
func in(t *testing.T, test func(*testing.T, *store, *sight.Looker)) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: memlock.New(nil)}
		hold(t, s, "b")
		hold(t, s, "a")
		hold(t, s, "secret")
		l := sight.New(s, &sight.Options{Skip: func(resource string) bool { return resource == "secret" }})
		defer l.Close()
		test(t, s, l)
	})
}

func TestLooksOnlyWhileSomebodyWatches(t *testing.T) {
	in(t, func(t *testing.T, s *store, l *sight.Looker) {
		time.Sleep(time.Hour)
		if s.looks != 0 {
			t.Fatalf("%d looks without a watcher", s.looks)
		}
		seen, err := l.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(seen.Holds) != 2 || seen.Holds[0].Resource != "a" || seen.Holds[1].Resource != "b" || !seen.Queue || seen.Cut {
			t.Errorf("it has seen %+v", seen)
		}
		if again, _ := l.Now(t.Context()); again != seen || s.looks != 1 {
			t.Errorf("it looked again at once, %d times", s.looks)
		}
		time.Sleep(time.Hour)
		if s.looks != 1 {
			t.Errorf("%d looks, though nobody watches any longer", s.looks)
		}
	})
}

// One resource is looked at without a rest, and what is not to be seen is not.
func TestResource(t *testing.T) {
	in(t, func(t *testing.T, s *store, l *sight.Looker) {
		s.takes = time.Second
		last, err := l.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for resource, holds := range map[string]int{"a": 1, "free": 0, "secret": 0} {
			began := time.Now()
			seen, err := l.Resource(t.Context(), resource)
			if err != nil || len(seen.Holds) != holds || !seen.At.Equal(began) || time.Since(began) != time.Second {
				t.Errorf("%s: %+v, %v", resource, seen, err)
			}
		}
		if l.Last() != last {
			t.Error("it is kept as a look at all")
		}
		s.err = errors.New("no answer")
		if _, err := l.Resource(t.Context(), "a"); !errors.Is(err, s.err) {
			t.Errorf("error %v", err)
		}
		l.Close()
		if _, err := l.Resource(t.Context(), "a"); !errors.Is(err, sight.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}

// Whoever counts the calls of the store is told of those of the looks.
func TestTellsOfItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{Store: memlock.New(nil), takes: time.Second}
		var told []string
		l := sight.New(s, &sight.Options{StoreCall: func(_ context.Context, op string, took time.Duration, err error) {
			told = append(told, fmt.Sprint(op, " ", took, " ", err))
		}})
		defer l.Close()
		for number := range uint64(2) {
			if _, err := l.After(t.Context(), number); err != nil {
				t.Fatal(err)
			}
			s.err = errors.New("no answer")
		}
		if want := []string{"list 1s <nil>", "waiters 0s <nil>", "list 1s no answer"}; !slices.Equal(told, want) {
			t.Errorf("it tells %q, not %q", told, want)
		}
	})
}

// Many who watch are served by the same looks.
func TestOneLookForAll(t *testing.T) {
	in(t, func(t *testing.T, s *store, l *sight.Looker) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan int)
		for range 50 {
			go func() {
				sights := 0
				for number := uint64(0); ; sights++ {
					seen, err := l.After(ctx, number)
					if err != nil {
						break
					}
					number = seen.Number
				}
				done <- sights
			}()
		}
		time.Sleep(10*time.Second + time.Millisecond)
		cancel()
		for range 50 {
			if n := <-done; n != 11 {
				t.Errorf("%d sights in ten seconds", n)
			}
		}
		if s.looks > 12 {
			t.Errorf("%d looks in ten seconds", s.looks)
		}
	})
}

// A store that is slow rests ten times as long as a look takes.
func TestRests(t *testing.T) {
	in(t, func(t *testing.T, s *store, l *sight.Looker) {
		s.takes = 700 * time.Millisecond
		for number := uint64(0); number < 4; {
			seen, err := l.After(t.Context(), number)
			if err != nil {
				t.Fatal(err)
			}
			if number = seen.Number; seen.Pause != 7*time.Second || seen.Took != s.takes {
				t.Errorf("pause %v after %v", seen.Pause, seen.Took)
			}
		}
		for i := 1; i < len(s.begins); i++ {
			if between := s.begins[i].Sub(s.begins[i-1]); between != 7700*time.Millisecond {
				t.Errorf("looks began %v apart", between)
			}
		}
	})
}

// A look that fails is as much work for the store as one that does not, unless it takes no
// time.
func TestRestsAfterFailure(t *testing.T) {
	for name, c := range map[string]struct{ takes, pause time.Duration }{
		"at once":               {0, time.Second},
		"a little":              {50 * time.Millisecond, time.Second},
		"slow":                  {2 * time.Second, 20 * time.Second},
		"all its time":          {30 * time.Second, 5 * time.Minute},
		"longer than it should": {time.Hour, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, s *store, l *sight.Looker) {
				s.takes, s.err = c.takes, errors.New("no answer")
				for number := range uint64(3) {
					seen, err := l.After(t.Context(), number)
					if err != nil {
						t.Fatal(err)
					}
					if seen.Pause != c.pause || time.Until(seen.Next) != c.pause || seen.Err == nil {
						t.Errorf("pause %v, next in %v, error %v", seen.Pause, time.Until(seen.Next), seen.Err)
					}
				}
				for i := 1; i < len(s.begins); i++ {
					if between := s.begins[i].Sub(s.begins[i-1]); between != c.takes+c.pause {
						t.Errorf("looks began %v apart", between)
					}
				}
			})
		})
	}
}

// A look ends when its time is over, and the store then rests ten times as long.
func TestRestsAfterPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := sight.New(&hanging{Store: memlock.New(nil)}, nil)
		defer l.Close()
		seen, err := l.Now(t.Context())
		if err != nil || !errors.Is(seen.Err, context.DeadlineExceeded) || seen.Pause != 5*time.Minute {
			t.Errorf("pause %v, error %v, error of the look %v", seen.Pause, err, seen.Err)
		}
	})
}

// A look that has failed because the store was away says nothing of one that is back. If it
// was slow, and answered others meanwhile, it rests.
func TestLooksWhenStoreIsBack(t *testing.T) {
	for name, c := range map[string]struct{ answers, then, looks time.Duration }{
		"away":          {0, 50 * time.Second, 51 * time.Second},
		"away for long": {0, time.Hour, 5*time.Minute + 30*time.Second},
		"slow":          {10 * time.Second, 50 * time.Second, 5*time.Minute + 30*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var answered atomic.Pointer[time.Time]
				answered.Store(new(time.Time))
				answers := func() { now := time.Now(); answered.Store(&now) }
				l := sight.New(&hanging{Store: memlock.New(nil)}, &sight.Options{Answered: func() time.Time { return *answered.Load() }})
				defer l.Close()
				if c.answers > 0 {
					time.AfterFunc(c.answers, answers)
				}
				time.AfterFunc(c.then, answers)
				first, err := l.Now(t.Context())
				if err != nil || first.Err == nil {
					t.Fatalf("error %v, error of the look %v", err, first.Err)
				}
				second, err := l.After(t.Context(), first.Number)
				if err != nil {
					t.Fatal(err)
				}
				// It takes all its time.
				if at := time.Since(began) - 30*time.Second; at > c.looks || at < c.looks-time.Second {
					t.Errorf("a look began after %v, error %v", at, second.Err)
				}
			})
		})
	}
}

func TestStoreFails(t *testing.T) {
	in(t, func(t *testing.T, s *store, l *sight.Looker) {
		before, err := l.Now(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.err = errors.New("no answer")
		began := time.Now().Add(time.Second)
		number := before.Number
		for range 3 {
			seen, err := l.After(t.Context(), number)
			if err != nil {
				t.Fatal(err)
			}
			if number = seen.Number; !errors.Is(seen.Err, s.err) || !seen.Failing.Equal(began) || len(seen.Holds) != 2 || !seen.At.Equal(before.At) {
				t.Errorf("it shows %+v", seen)
			}
		}
		s.err = nil
		after, err := l.After(t.Context(), number)
		if err != nil || after.Err != nil || !after.Failing.IsZero() || !after.At.After(before.At) {
			t.Errorf("it shows %+v, error %v", after, err)
		}
	})
}

// A look that hangs ends with the Looker, and so do those who wait for it.
func TestCloseEndsLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &hanging{Store: memlock.New(nil)}
		l := sight.New(s, nil)
		ended := make(chan error)
		go func() {
			_, err := l.After(t.Context(), 0)
			ended <- err
		}()
		synctest.Wait()
		go l.Close()
		if err := <-ended; err != nil && !errors.Is(err, sight.ErrClosed) {
			t.Errorf("got error %v", err)
		}
		if _, err := l.After(t.Context(), 99); !errors.Is(err, sight.ErrClosed) {
			t.Errorf("got error %v", err)
		}
	})
}

// hanging is a store whose lists end with their context alone.
type hanging struct{ driver.Store }

func (h *hanging) List(ctx context.Context, _ driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		<-ctx.Done()
		yield(driver.Status{}, ctx.Err())
	}
}

// endless is a store with more than anybody wants to see.
type endless struct{ driver.Store }

func (endless) List(context.Context, driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		for i := 0; yield(driver.Status{Resource: fmt.Sprint(i), Left: time.Second}, nil); i++ {
		}
	}
}

func (endless) Waiters(context.Context, driver.Filter) iter.Seq2[driver.Place, error] {
	return func(func(driver.Place, error) bool) {}
}

func TestCut(t *testing.T) {
	l := sight.New(endless{memlock.New(nil)}, nil)
	defer l.Close()
	seen, err := l.Now(t.Context())
	if err != nil || len(seen.Holds) != sight.MaxRows || !seen.Cut {
		t.Errorf("%d holds, cut %v, error %v", len(seen.Holds), seen.Cut, err)
	}
}

type panicking struct{ driver.Store }

func (panicking) List(context.Context, driver.Filter) iter.Seq2[driver.Status, error] { panic("no") }

// Why looks fail is in the log, once: pages do not say it.
func TestPanicOfStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := sight.New(panicking{memlock.New(nil)}, &sight.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for number := range uint64(3) {
			if seen, err := l.After(t.Context(), number); err != nil || seen.Err == nil {
				t.Errorf("got %+v, error %v", seen, err)
			}
		}
		l.Close()
		if strings.Count(log.String(), "panicked: no") != 1 {
			t.Errorf("the log has %s", log.String())
		}
	})
}

// A resource is stuck if somebody waits for it, and its holder is gone.
func TestStuck(t *testing.T) {
	now := time.Now()
	gone := func(resource string) driver.Status {
		return driver.Status{Resource: resource, Left: driver.Forever, Seen: now, Created: now.Add(-time.Hour)}
	}
	alive := func(resource string) driver.Status {
		h := gone(resource)
		h.Renewed = now
		return h
	}
	s := &sight.Sight{
		Holds: []driver.Status{gone("a"), alive("b"), alive("c"), gone("c"), gone("c"), alive("e"), gone("f")},
		Waiters: []driver.Place{
			{Resource: "b"}, {Resource: "c"}, {Resource: "c"}, {Resource: "d"}, {Resource: "e"}, {Resource: "f"}, {Resource: "g"},
		},
	}
	if n := s.Stuck(); n != 2 { // c and f
		t.Errorf("%d are stuck", n)
	}
}
