package waitline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storecall"
	"github.com/holdfast-go/holdfast/internal/waitline"
)

var errLate, errAny = errors.New("no answer"), errors.New("any")

// If the store is silent for a waiter's patience, the wait ends with the last error. The time
// for which the process was stopped does not count, nor the time before the waiter came.
func TestPatience(t *testing.T) {
	for _, stops := range []bool{false, true} {
		bubble(t, "", func(t *testing.T) {
			r := newRoom(t, 1)
			patient := func(w *waitline.Waiter) { w.Patience = 5 * time.Second }
			a, b := r.join(exclusive, "a", patient), r.join(exclusive, "b", patient)
			began := time.Now()
			var last error
			for last == nil {
				if _, last = turn(a, 2*time.Second); last != nil {
					break
				}
				time.Sleep(900 * time.Millisecond)
				if stops && time.Since(began) < time.Second {
					r.slept.Add(int64(time.Hour))
				}
				last = a.Silent(errLate)
				if stops && time.Since(began) < time.Second {
					r.slept.Add(int64(time.Hour))
				}
			}
			took := time.Since(began)
			if !errors.Is(last, errLate) {
				t.Error(last)
			}
			if took > 7*time.Second || took < 4*time.Second && !stops {
				t.Errorf("the waiter waited for %v, its patience is 5s", took)
			}
			if stops && took < 1000*time.Millisecond {
				t.Errorf("the waiter waited for %v: the time of the stopped process counted", took)
			}
			c := r.join(exclusive, "c", patient)
			a.Leave()
			r.ends(b, errLate)
			b.Leave()
			r.ask(c, 0)
		})
	}
}

// A waiter without an answer asks again even if it is not the head: its hold may block all
// others.
func TestSilentAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		r.traits = driver.Traits{}
		a, b := r.join(exclusive, "a", nil), r.join(exclusive, "b", atOnce)
		r.ask(a, 0)
		for range 20 {
			r.ask(b, storecall.RetryLimit*3/2)
			if err := b.Silent(errLate); err != nil {
				t.Fatal(err)
			}
			r.rest(0, b) // it pauses
		}
		if _, _, err := a.Heard(); !errors.Is(err, errLate) {
			t.Errorf("the last error of a is %v", err)
		}
		r.ask(b, 2*time.Second)
		refused(b, driver.NoPlace)
		r.rest(time.Minute, b)
		if _, _, err := a.Heard(); !errors.Is(err, driver.ErrHeld) {
			t.Errorf("the last error of a is %v", err)
		}
	})
}

// Waits end by Interrupt, for a moment, by Reject, and by Close.
func TestWaitsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		a, b, c := r.join(shared, "a", nil), r.join(shared, "b", nil), r.join(shared, "b", atOnce)
		r.ask(a, 0)
		interrupt := make(chan struct{})
		b.Interrupt = interrupt
		time.AfterFunc(time.Second, func() { close(interrupt) })
		if _, err := turn(b, time.Minute); !errors.Is(err, waitline.ErrInterrupted) {
			t.Errorf("error %v, want %v", err, waitline.ErrInterrupted)
		}
		b.Interrupt = nil
		time.AfterFunc(time.Second, func() { r.Reject("r", "b", errLate) })
		if _, err := turn(b, time.Minute); !errors.Is(err, errLate) {
			t.Errorf("error %v, want %v", err, errLate)
		}
		r.ask(c, 0) // it was asking, and gets the answer of the store
		refused(c, driver.NoPlace)
		time.AfterFunc(time.Second, r.Close)
		if _, err := turn(c, time.Minute); !errors.Is(err, waitline.ErrClosed) {
			t.Errorf("error %v, want %v", err, waitline.ErrClosed)
		}
		refused(a, driver.NoPlace)
		r.ends(a, waitline.ErrClosed)
	})
}

// watches checks the number of calls of Watch and the errors that Watched got.
func (r *room) watches(calls int, told ...error) {
	r.t.Helper()
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	same := len(r.told) == len(told)
	for i := range min(len(told), len(r.told)) {
		same = same && (errors.Is(r.told[i], told[i]) || told[i] == errAny && r.told[i] != nil) //nolint:errorlint // errAny stands for any error
	}
	if len(r.subs) != calls || !same {
		r.t.Errorf("%d calls of Watch with errors %v; want %d, %v", len(r.subs), r.told, calls, told)
	}
}

// Without signals the head polls. A failed subscription is repeated, unless the store has
// none.
func TestWatchFails(t *testing.T) {
	for _, err := range []error{errLate, driver.ErrUnsupported} {
		bubble(t, err.Error(), func(t *testing.T) {
			r := newRoom(t, 1)
			r.traits.Queue = false
			fails := 2
			r.watch = func(context.Context) error {
				if fails--; fails >= 0 {
					return err
				}
				return nil
			}
			a := r.join(exclusive, "a", nil)
			for began := time.Now(); fails >= 0 && time.Since(began) < time.Minute; {
				r.ask(a, 1500*time.Millisecond)
				refused(a, driver.NoPlace)
			}
			if errors.Is(err, driver.ErrUnsupported) {
				r.watches(1, err)
				return
			}
			r.watches(3, err, err, nil)
			r.rest(2*time.Second, a)
		})
	}
}

// A Watch that ignores its ctx delays nobody for more than 2 s, even if its line has ended.
// If it hangs for longer, no other subscription is made.
func TestWatchHangs(t *testing.T) {
	for _, leaves := range []bool{false, true} {
		bubble(t, "", func(t *testing.T) {
			r := newRoom(t, 1)
			r.traits.Queue = false
			hangs := make(chan struct{})
			r.watch = func(context.Context) error { <-hangs; return nil }
			a := r.join(exclusive, "a", nil)
			other := &waitline.Waiter{Resource: "other", Timeout: time.Second}
			r.Join(other)
			r.ask(a, 0)
			a.Refused(&driver.HeldError{RetryAfter: time.Second, Position: driver.NoPlace}, nil, 0)
			r.rest(time.Second, a)
			r.ask(a, 2*time.Millisecond)
			refused(a, driver.NoPlace)
			r.rest(time.Second-time.Millisecond-1, a)
			if leaves {
				a.Leave()
				time.Sleep(10 * time.Millisecond) // until it takes too long
				synctest.Wait()
			} else {
				r.ask(a, 2)
				refused(a, driver.NoPlace)
				r.ask(a, 1500*time.Millisecond)
				refused(a, driver.NoPlace)
			}
			r.ask(other, 0)
			refused(other, driver.NoPlace)
			for range 10 {
				r.ask(other, 1500*time.Millisecond)
				refused(other, driver.NoPlace)
			}
			if _, _, err := r.Subscribe(t.Context(), "third"); err == nil {
				t.Error("subscribed a third time while a call hangs")
			}
			if leaves {
				r.watches(1)
			} else {
				r.watches(1, errAny)
			}
			close(hangs)
			time.Sleep(10 * time.Second)
			r.ask(other, 0)
			refused(other, driver.NoPlace)
			r.rest(2*time.Second, other)
			other.Leave()
			a.Leave()
		})
	}
}

// A closed channel means: poll from now on. The next head subscribes again.
func TestSignalsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		r.traits.Queue = false
		a, b := r.join(exclusive, "a", nil), r.join(exclusive, "b", nil)
		r.settled(a)
		close(r.subs[0].signals)
		r.ask(a, 0)
		refused(a, driver.NoPlace)
		r.rest(4*time.Millisecond, a)
		for range 10 {
			r.ask(a, 1500*time.Millisecond)
			refused(a, driver.NoPlace)
		}
		r.watches(1, nil)
		a.Leave()
		r.settled(b)
		r.watches(2, nil, nil)
		r.rest(2*time.Second, b)
		r.subs[1].signals <- struct{}{}
		r.ask(b, 0)
	})
}

// A reused line has nothing of its previous resource.
func TestLineIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 16)
		for range 100 {
			// The subscription begins when the line ends.
			a := r.join(fair, "a", keyed("a"))
			r.ask(a, 0)
			var b *waitline.Waiter
			r.then = func() {
				a.Leave()
				if _, free := r.Kept(); free != 1 {
					t.Errorf("%d empty lines, want 1", free)
				}
				b = r.join(exclusive, "b", keyed("b"))
				if position, _, err := b.Heard(); err != nil || position != 0 {
					t.Errorf("the reused line has %v, position %d", err, position)
				}
				if ask := r.ask(b, 0); !ask.Place.IsZero() {
					t.Error("the waiter asks with a place")
				}
				r.traits.Notifies = false
				b.Refused(&driver.HeldError{RetryAfter: driver.Forever, Position: driver.NoPlace}, nil, 0)
			}
			refused(a, 0)
			r.rest(time.Millisecond, b)
			r.traits.Notifies = true
			b.Leave()

			// A signal reaches the Turn of a when its wait ends.
			c := r.join(exclusive, "c", keyed("c"))
			r.settled(c)
			signals := r.subs[len(r.subs)-1].signals
			waits := make(chan error)
			go func() {
				_, err := turn(c, time.Minute)
				waits <- err
			}()
			synctest.Wait()
			signals <- struct{}{}
			r.Forget("c")
			r.traits.Notifies = false
			b = r.join(exclusive, "b", nil)
			_, _ = turn(b, 0)
			b.Refused(&driver.HeldError{RetryAfter: driver.Forever, Position: driver.NoPlace}, nil, 0)
			r.rest(time.Millisecond, b)
			if err := <-waits; err != nil && !errors.Is(err, waitline.ErrForgotten) { // nil: the signal came first
				t.Fatal(err)
			}
			r.traits.Notifies = true
			b.Leave()
		}
	})
}

// A line that ends while it subscribes does not delay the signals of others.
func TestWatchThatIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRoom(t, 1)
		r.traits.Queue = false
		r.watch = func(context.Context) error { time.Sleep(50 * time.Millisecond); return nil } // it ignores its ctx
		for range 100 {
			a := r.join(exclusive, "a", nil)
			r.ask(a, 0)
			refused(a, driver.NoPlace)
			a.Leave()
			time.Sleep(time.Millisecond)
		}
		b := r.join(exclusive, "b", nil)
		r.ask(b, 0)
		refused(b, driver.NoPlace)
		if _, stop, err := r.Subscribe(t.Context(), "other"); err != nil {
			t.Errorf("a subscription after abandoned ones: %v", err)
		} else {
			stop()
		}
		r.ask(b, 0) // it has subscribed
		refused(b, driver.NoPlace)
		r.rest(time.Second, b)
	})
}
