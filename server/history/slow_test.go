package history_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
)

// apart fails unless the exclusive holds of the resource whose lengths the history knows come
// one after the other. It returns its events.
func (w *world) apart(resource string) []history.Event {
	w.t.Helper()
	type span struct{ from, to time.Time }
	var spans []span
	events := w.events(resource)
	ended := make(map[uint64]bool)
	for _, e := range events {
		if e.Kind.Begins() || e.Held == driver.Unknown || ended[e.Token] {
			continue
		}
		ended[e.Token] = true // it may also be lost
		a := span{e.At.Add(-e.Held), e.At}
		if (w.vague || e.Kind == history.Lost) && e.Within != driver.Unknown {
			a.to = a.to.Add(-e.Within)
		}
		for _, b := range spans {
			if a.from.Before(b.to) && b.from.Before(a.to) {
				w.t.Errorf("%s: one was held from %v to %v, another one from %v to %v", resource, b.from, b.to, a.from, a.to)
			}
		}
		spans = append(spans, a)
	}
	return events
}

// short holds the resource through this server for a moment.
func (w *world) short(resource string) {
	w.t.Helper()
	h := w.hold(resource, time.Hour)
	w.granted(h, time.Hour)
	w.pass(300 * time.Millisecond)
	w.release(h)
	w.log.Released(h, time.Now())
}

// What ended while the store was listing had ended before the next began.
func TestEndsWithinLook(t *testing.T) {
	for name, known := range map[string]bool{"known": true, "not known": false} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				w.pass(5*time.Second - 100*time.Millisecond)
				h := w.hold("r", time.Hour) // through another server
				if known {
					w.pass(2 * time.Second)
				}
				w.sees.late.Store(int64(2 * time.Second))
				w.pass(look)
				w.release(h)
				for range 3 {
					w.short("r")
				}
				w.sees.late.Store(0)
				w.pass(time.Minute)
				events := w.apart("r")
				if n := len(events); known && n != 8 || !known && n != 6 {
					t.Errorf("got %q", kinds(events))
				}
				if u, err := w.log.Usual(t.Context(), "r"); err != nil || u.Median != 300*time.Millisecond {
					t.Errorf("usual: %+v, %v", u, err)
				}
			})
		})
	}
}

// What a look shows was so when it was over, not when it began.
func TestLateLook(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.hold("r", time.Hour)
		w.granted(a, time.Hour)
		w.pass(5 * time.Second)
		w.sees.hangs.Store(int64(20 * time.Second))
		w.pass(1500 * time.Millisecond)
		w.sees.hangs.Store(0)
		w.pass(15 * time.Second)
		w.release(a)
		w.log.Released(a, time.Now())
		w.pass(time.Second)
		began := time.Now()
		b := w.hold("r", time.Hour) // through another server
		w.pass(5 * time.Minute)
		w.release(b)
		w.pass(look)
		events := w.apart("r")
		if got := kinds(events); got != "granted released seen gone" {
			t.Fatal(got)
		}
		if e := events[2]; e.At.Add(-e.Held).Before(began) {
			t.Errorf("it was held since %v, but is said to be since %v", began, e.At.Add(-e.Held))
		}
	})
}

// A hold does not end before it may have been renewed for the last time where nobody saw it.
func TestRenewedElsewhere(t *testing.T) {
	for name, blind := range map[string]func(*world){
		"looks fail":      func(w *world) { w.sees.fail.Store(true) },
		"looks take long": func(w *world) { w.sees.hangs.Store(int64(10 * time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				h := w.hold("r", 30*time.Second)
				w.pass(5 * time.Second)
				blind(w)
				for range 12 {
					w.pass(10 * time.Second)
					w.renew(h, 30*time.Second)
				}
				released := time.Now()
				w.release(h)
				w.sees.fail.Store(false)
				w.sees.hangs.Store(0)
				w.pass(5 * time.Minute)
				events := w.events("r")
				if e := events[len(events)-1]; e.Kind.Begins() || e.At.Before(released) || e.At.Add(-e.Within).After(released) {
					t.Errorf("released at %v, ended with %+v", released, e)
				}
			})
		})
	}
}

// That another hold began is known after a restart too.
func TestNextBeforeRestart(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.hold("r", time.Hour)
		w.granted(a, time.Hour)
		w.pass(10*time.Second + 100*time.Millisecond)
		w.release(a) // through another server
		w.short("r")
		w.stop()
		w.pass(10 * time.Minute)
		w.start()
		w.pass(5 * time.Second)
		if events := w.apart("r"); len(events) != 4 || events[3].Token != a.Token || events[3].At.After(events[2].At) {
			t.Errorf("%+v", events)
		}
	})
}

// A release that is told late, after the next grant, was before that, also if nobody has seen
// that one yet.
func TestReleaseToldLate(t *testing.T) {
	for name, tell := range map[string]func(*history.Log, driver.HoldRef, time.Time){
		"released": func(l *history.Log, h driver.HoldRef, sent time.Time) { l.Released(h, sent) },
		"forced":   func(l *history.Log, h driver.HoldRef, sent time.Time) { l.Forced(h, sent, "ops", "it hung") },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				a := w.hold("here", time.Hour)
				b := w.hold("elsewhere", time.Hour)
				w.granted(a, time.Hour)
				w.granted(b, time.Hour)
				w.pass(100 * time.Millisecond)
				sent := time.Now()
				w.release(a)
				w.release(b)
				next := w.hold("elsewhere", time.Hour)
				w.short("here")
				w.log.Renewed(a, sent, time.Hour) // told late too
				w.log.Renewed(b, sent, time.Hour)
				tell(w.log, a, sent)
				tell(w.log, b, sent)
				w.pass(look)
				w.release(next)
				w.pass(look)
				if got := kinds(w.apart("here")); got != "granted granted released "+name {
					t.Error(got)
				}
				if got := kinds(w.apart("elsewhere")); got != "granted "+name+" seen gone" {
					t.Error(got)
				}
			})
		})
	}
}

// A hold whose holder finds it lost had ended before the next began, which nobody has seen yet.
func TestLostBeforeLook(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		a := w.hold("r", 4100*time.Millisecond)
		w.granted(a, 4100*time.Millisecond)
		w.pass(4200 * time.Millisecond)
		began := time.Now()
		b := w.hold("r", time.Hour)
		w.pass(500 * time.Millisecond)
		w.log.Lost(a)
		w.pass(look)
		w.release(b)
		w.pass(look)
		events := w.apart("r")
		if got := kinds(events); got != "granted lost seen gone" {
			t.Fatal(got)
		}
		if e := events[1]; e.At.After(began) || e.Within <= 0 || e.Within > look {
			t.Errorf("the next began at %v: %+v", began, e)
		}
	})
}

// A hold ID that is used again while a look lists its first hold has one hold at a time.
func TestSameIDWithinLook(t *testing.T) {
	for name, here := range map[string]bool{"here": true, "elsewhere": false} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, w *world) {
				q := driver.AcquireRequest{Resource: "r", LockID: "lock", HoldID: driver.NewHoldID(), TTL: time.Hour}
				first := w.acquire(q)
				if here {
					w.granted(first, time.Hour)
				}
				w.pass(5 * time.Second)
				w.sees.late.Store(int64(3 * time.Second))
				w.pass(1500 * time.Millisecond)
				w.release(first)
				if here {
					w.log.Released(first, time.Now())
				}
				w.pass(100 * time.Millisecond)
				second := w.acquire(q)
				if here {
					w.granted(second, time.Hour)
				}
				w.sees.late.Store(0)
				w.pass(3 * time.Minute)
				want := "seen gone seen"
				if here {
					want = "granted released granted"
				}
				events := w.want("r", want)
				if last := events[2]; last.Token != second.Token || events[1].At.After(last.At.Add(-last.Held)) {
					t.Errorf("%+v", events)
				}
			})
		})
	}
}

// A renewal with another lock ID finds no hold, and the hold goes on.
func TestLostByAnotherLockID(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		own, others := w.hold("own", time.Hour), w.hold("others", time.Hour)
		w.granted(own, time.Hour)
		w.pass(3 * look)
		for _, h := range []driver.HoldRef{own, others} {
			wrong := h
			wrong.LockID = "another"
			w.log.Lost(wrong)
			w.pass(3 * look)
			w.release(h)
			w.pass(look)
			w.log.Lost(wrong)
			w.log.Lost(h)
		}
		w.want("own", "granted gone lost")
		w.want("others", "seen gone lost")
	})
}

// A look that hangs once is a gap, also because the store then rests for long.
func TestHangIsGap(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(10 * time.Second)
		w.sees.hangs.Store(int64(20 * time.Second))
		w.pass(2 * time.Second)
		w.sees.hangs.Store(0)
		w.pass(30 * time.Second)
		h := w.hold("unseen", time.Hour)
		w.pass(100 * time.Second)
		if gaps := w.log.State().Gaps; len(gaps) == 0 || !gaps[0].To.IsZero() {
			t.Errorf("during it: %+v", gaps)
		}
		w.release(h)
		w.pass(5 * time.Minute)
		if gaps := w.log.State().Gaps; len(gaps) != 1 || gaps[0].Cause != history.Blind || gaps[0].To.Sub(gaps[0].From) < 200*time.Second {
			t.Errorf("after it: %+v", gaps)
		}
	})
}

// A store of which all looks take long is looked at rarely, and that is no gap.
func TestSlowIsNoGap(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.sees.hangs.Store(int64(3 * time.Second))
		w.pass(time.Hour)
		s := w.log.State()
		if len(s.Gaps) > 1 || len(s.Gaps) == 1 && s.Gaps[0].To.Sub(s.Gaps[0].From) > 6*time.Minute {
			t.Errorf("%+v", s.Gaps)
		}
		if s.Period != 33*time.Second {
			t.Errorf("period %v", s.Period)
		}
	})
}

// A hold whose time was over while the server was not there may have been lost.
func TestLapsesWhileDown(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.hold("seen", 30*time.Second)
		own, long := w.hold("own", 30*time.Second), w.hold("long", time.Hour)
		w.granted(own, 30*time.Second)
		w.pass(5 * time.Second)
		w.stop()
		w.pass(10 * time.Minute)
		w.release(long)
		w.start()
		w.pass(10 * time.Second)
		w.want("seen", "seen lapsed")
		w.want("own", "granted lapsed")
		w.want("long", "seen gone")
	})
}

// The end of the server within a look that hangs does not hide for how long it has seen nothing.
func TestEndsWhileLookHangs(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(10 * time.Second)
		w.sees.hangs.Store(int64(time.Hour))
		w.pass(25 * time.Second)
		w.stop()
		w.sees.hangs.Store(0)
		w.start()
		w.pass(10 * time.Second)
		if gaps := w.log.State().Gaps; len(gaps) != 1 || gaps[0].To.Sub(gaps[0].From) < 24*time.Second {
			t.Errorf("%+v", gaps)
		}
	})
}

// While looks are cut there is a gap, and a hold may have ended at any time of it.
func TestCutIsGap(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: each look has a hundred thousand rows")
	}
	in(t, func(t *testing.T, w *world) {
		h := w.hold("zz", time.Hour)
		w.pass(10 * time.Second)
		w.sees.many.Store(true)
		w.pass(10 * time.Second)
		if gaps := w.log.State().Gaps; len(gaps) != 1 || !gaps[0].To.IsZero() {
			t.Errorf("during it: %+v", gaps)
		}
		released := time.Now()
		w.release(h)
		w.pass(10 * time.Second)
		w.sees.many.Store(false)
		w.pass(10 * time.Second)
		if e := w.want("zz", "seen gone")[1]; e.At.Add(-e.Within).After(released) {
			t.Errorf("released at %v, ended with %+v", released, e)
		}
		if gaps := w.log.State().Gaps; len(gaps) != 1 || gaps[0].Cause != history.Blind || gaps[0].To.Sub(gaps[0].From) < 19*time.Second {
			t.Errorf("after it: %+v", gaps)
		}
	})
}
