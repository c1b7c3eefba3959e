package history_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/sight"
)

func exactly(at time.Time) history.Moment { return history.Moment{After: at, By: at} }

// same reports whether the moments are the same, as exact as the file.
func same(a, b history.Moment) bool {
	return a.After.Sub(b.After).Abs() < time.Millisecond && a.By.Sub(b.By).Abs() < time.Millisecond
}

func TestOwnHold(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		began := time.Now()
		h := w.hold("backup", time.Minute)
		w.granted(h)
		w.granted(h) // the answer got lost
		w.pass(20 * time.Second)
		w.renew(h, time.Minute)
		w.log.Renewed(h, time.Now())
		w.pass(10 * time.Second)
		ended := time.Now()
		w.release(h)
		w.log.Released(driver.HoldRef{Resource: h.Resource, HoldID: h.HoldID}, time.Now()) // without its token
		w.log.Released(h, time.Now())
		w.pass(5 * look)
		is := w.want("backup", history.Released)[0]
		if is.Ref != wire.RefOf(h.HoldID) || is.Token != h.Token || is.Owner != "ada" || is.Host != "engine" || !same(is.Began, exactly(began)) || !same(is.Ended, exactly(ended)) {
			t.Errorf("%+v", is)
		}
	})
}

// Holds of others are what looks show, with both times.
func TestHoldOfOthers(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(10*time.Second + 500*time.Millisecond)
		began := time.Now()
		h := w.hold("backup", time.Hour)
		w.pass(10 * time.Second)
		w.renew(h, time.Hour)
		if is := w.want("backup", "")[0]; !is.Began.After.Equal(is.Began.By) || !same(is.Began, exactly(began)) || is.Comment != "for a test" || is.Share != "" {
			t.Errorf("began %v: %+v", began, is)
		}
		w.pass(10 * time.Second)
		ended := time.Now()
		w.release(h)
		w.pass(look)
		is := w.want("backup", history.Unknown)[0]
		if is.Ended.After.After(ended) || is.Ended.By.Before(ended) || is.Ended.By.Sub(is.Ended.After) != time.Second {
			t.Errorf("ended %v: %+v", ended, is.Ended)
		}
		if s := w.log.State(); !s.Looks || s.Period != time.Second || s.Name != "one" || s.Noted != 2 || s.Dropped != 0 || len(s.Gaps) != 0 {
			t.Errorf("state %+v", s)
		}
	})
}

// A hold that was not renewed when that was due was lost when its time was over.
func TestExpires(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := w.hold("backup", 30*time.Second)
		w.pass(10*time.Second + 300*time.Millisecond)
		w.renew(h, 30*time.Second)
		over := time.Now().Add(30 * time.Second)
		w.pass(32 * time.Second)
		is := w.want("backup", history.Lost)[0]
		if is.Ended.After.After(over) || is.Ended.By.Before(over) || is.Ended.By.Sub(is.Ended.After) > 2*time.Second {
			t.Errorf("over %v: %+v", over, is.Ended)
		}
		w.log.Lost(h) // the holder notices
		if again := w.want("backup", history.Lost)[0]; again != is {
			t.Errorf("%+v", again)
		}
	})
}

// A hold that is short for looks may have been released.
func TestShortHoldIsNotLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(500 * time.Millisecond)
		w.hold("backup", 1400*time.Millisecond)
		w.pass(2 * look)
		w.want("backup", history.Unknown)
	})
}

func TestForcedAndLost(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		forced, lost, gone := w.hold("forced", time.Hour), w.hold("lost", time.Hour), w.hold("gone", time.Hour)
		for _, h := range []driver.HoldRef{forced, lost, gone} {
			w.granted(h)
		}
		w.pass(look)
		w.release(forced)
		w.log.Forced(forced, time.Now(), "ops", "it hung")
		w.log.Lost(forced) // the holder notices, as it should
		w.release(lost)
		w.log.Lost(lost)
		w.release(gone)
		w.pass(look)
		before := w.want("gone", history.Unknown)[0]
		w.log.Lost(gone) // a look was faster, and its holder tells more
		w.log.Lost(driver.HoldRef{Resource: "never", LockID: "x", HoldID: driver.NewHoldID(), Token: 1})
		if h := w.want("forced", history.Forced)[0]; h.By != "ops" || h.Reason != "it hung" {
			t.Errorf("%+v", h)
		}
		if h := w.want("lost", history.Lost)[0]; h.Ended.After.After(h.Ended.By) || h.Ended.By.Sub(h.Ended.After) > look {
			t.Errorf("%+v", h)
		}
		if h := w.want("gone", history.Lost)[0]; h.Ended != before.Ended {
			t.Errorf("%+v", h)
		}
		w.want("never")
		for since, want := range map[time.Duration]int{time.Hour: 3, time.Nanosecond: 0} {
			losses, err := w.log.Holds(t.Context(), history.Query{Losses: true, Since: time.Now().Add(-since)})
			if err != nil || len(losses) != want {
				t.Errorf("losses since %v: %v, %v", since, losses, err)
			}
		}
	})
}

// Forcing a hold that was got elsewhere just now is in the history.
func TestForcedBeforeLook(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(look)
		h := w.hold("r", time.Hour)
		w.release(h)
		sent := time.Now()
		w.log.Forced(h, sent, "ops", "it hung")
		w.pass(3 * look)
		if is := w.want("r", history.Forced)[0]; !is.Began.After.IsZero() || !same(is.Ended, exactly(sent)) {
			t.Errorf("%+v", is)
		}
	})
}

// While looks fail nobody knows when a hold ended, and how.
func TestOutage(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := w.hold("r", 30*time.Second)
		w.granted(h)
		w.pass(10*time.Second + 300*time.Millisecond)
		w.sees.fail.Store(true)
		failed := time.Now()
		w.pass(time.Minute)
		if gaps := w.log.State().Gaps; len(gaps) != 1 || !gaps[0].To.IsZero() || gaps[0].From.After(failed) || failed.Sub(gaps[0].From) > look {
			t.Errorf("during it: %+v", gaps)
		}
		w.sees.fail.Store(false)
		w.pass(time.Minute)
		is := w.want("r", history.Unknown)[0]
		if is.Ended.After.After(failed) || is.Ended.By.Sub(is.Ended.After) < time.Minute {
			t.Errorf("%+v", is.Ended)
		}
		if gaps := w.log.State().Gaps; len(gaps) != 1 || gaps[0].To.Sub(gaps[0].From) < time.Minute {
			t.Errorf("after it: %+v", gaps)
		}
	})
}

// A restart is a gap if it takes long. What was open is not noted again, and its end is.
func TestRestart(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		kept, ended, seen := w.hold("kept", time.Hour), w.hold("ended", time.Hour), w.hold("seen", time.Hour)
		w.granted(kept)
		w.pass(time.Minute)
		w.stop()
		w.start()
		w.pass(10 * look)
		if gaps := w.log.State().Gaps; len(gaps) != 0 {
			t.Errorf("gaps %+v", gaps)
		}
		w.stop()
		down := time.Now()
		w.pass(time.Minute)
		w.release(ended)
		w.start()
		w.pass(look)
		w.want("kept", "")
		w.want("seen", "")
		if h := w.want("ended", history.Unknown)[0]; h.Ended.After.After(down) || down.Sub(h.Ended.After) > 10*time.Second || h.Ended.By.Before(down.Add(time.Minute)) {
			t.Errorf("%+v", h)
		}
		if gaps := w.log.State().Gaps; len(gaps) != 1 || gaps[0].From.After(down) || gaps[0].To.Sub(gaps[0].From) < time.Minute {
			t.Errorf("gaps %+v", gaps)
		}
		w.release(kept)
		w.log.Released(kept, time.Now())
		w.want("kept", history.Released)
		w.release(seen)
		w.stop()
		w.start()
		w.pass(look)
		w.want("seen", history.Unknown)
		if n := w.log.State().Gaps; len(n) != 1 {
			t.Errorf("gaps %+v", n)
		}
	})
}

// A look that hangs once is a gap, also because the store then rests for long. A store whose
// looks all take long is looked at rarely, and that is none.
func TestSlow(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		w.pass(10 * time.Second)
		w.sees.hangs.Store(int64(20 * time.Second))
		w.pass(2 * time.Second)
		w.sees.hangs.Store(0)
		w.pass(130 * time.Second)
		if gaps := w.log.State().Gaps; len(gaps) == 0 || !gaps[0].To.IsZero() {
			t.Errorf("during it: %+v", gaps)
		}
		w.pass(5 * time.Minute)
		if gaps := w.log.State().Gaps; len(gaps) != 1 || gaps[0].To.Sub(gaps[0].From) < 200*time.Second {
			t.Errorf("after it: %+v", gaps)
		}
	})
	in(t, func(t *testing.T, w *world) {
		w.sees.hangs.Store(int64(3 * time.Second))
		w.pass(time.Hour)
		if s := w.log.State(); len(s.Gaps) > 0 || s.Period != 33*time.Second {
			t.Errorf("%+v", s)
		}
	})
}

// What a look does not show of itself is no end: while it is cut, nobody knows.
func TestCut(t *testing.T) {
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
		w.want("zz", "")
		w.sees.many.Store(false)
		w.pass(10 * time.Second)
		if is := w.want("zz", history.Unknown)[0]; is.Ended.After.After(released) {
			t.Errorf("released at %v: %+v", released, is)
		}
	})
}

// A look may show a hold before the server has noted that it granted it, and after it has noted
// its release.
func TestLookWithinCalls(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		own := w.hold("own", time.Hour)
		w.pass(time.Millisecond)
		w.granted(own)
		w.pass(3 * look)
		w.want("own", "")
		w.sees.late.Store(int64(2 * time.Second))
		w.pass(look)
		w.release(own)
		w.log.Released(own, time.Now())
		w.sees.late.Store(0)
		w.pass(time.Minute)
		w.want("own", history.Released)
	})
}

// A release whose answer is late was seen by a look before.
func TestReleaseToldLate(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := w.hold("r", time.Hour)
		w.granted(h)
		w.pass(10 * time.Second)
		sent := time.Now()
		w.release(h)
		w.pass(3 * look)
		w.want("r", history.Unknown)
		w.log.Released(h, sent)
		if is := w.want("r", history.Released)[0]; !same(is.Ended, exactly(sent)) {
			t.Errorf("%+v", is)
		}
	})
}

// A renewal with another lock ID finds no hold. The hold goes on, as the next look shows.
func TestLostByAnotherLockID(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		h := w.hold("r", time.Hour)
		w.granted(h)
		w.pass(10 * time.Second)
		w.log.Lost(h)
		w.want("r", history.Lost)
		w.pass(3 * look)
		w.want("r", "")
	})
}

// A hold ID that is used again has one hold after the other.
func TestSameHoldID(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		q := driver.AcquireRequest{Resource: "r", LockID: "lock", HoldID: driver.NewHoldID(), TTL: time.Hour}
		first := w.acquire(q)
		w.pass(10 * time.Second)
		w.release(first)
		second := w.acquire(q)
		w.granted(second)
		w.granted(first) // an answer that came late
		w.pass(10 * time.Second)
		holds := w.want("r", history.Unknown, "")
		if holds[0].Token != first.Token || holds[1].Token != second.Token || holds[0].Ended.By.After(holds[1].Began.By) {
			t.Errorf("%+v", holds)
		}
	})
}

// Somebody who chooses hold IDs can find two of the same ref. They are two holds all the same.
func TestSameRef(t *testing.T) {
	one, two := sameRef()
	in(t, func(t *testing.T, w *world) {
		a, b := w.share("r", one), w.share("r", two)
		w.pass(10 * look)
		w.want("r", "", "")
		w.stop()
		w.start()
		w.pass(10 * look)
		w.log.Lost(driver.HoldRef{Resource: "r", HoldID: two, Token: a.Token}) // that of the other one
		w.want("r", "", "")
		w.release(a)
		w.pass(look)
		w.want("r", history.Unknown, "")
		w.release(b)
		w.log.Released(driver.HoldRef{Resource: "r", HoldID: two}, time.Now()) // a request without a token
		w.want("r", history.Unknown, history.Released)
	})
}

// sameRef returns two hold IDs that have the same ref.
func sameRef() (one, two driver.HoldID) {
	seen := make(map[string]driver.HoldID)
	for {
		id := driver.NewHoldID()
		ref := wire.RefOf(id)
		if other, ok := seen[ref]; ok {
			return other, id
		}
		seen[ref] = id
	}
}

func TestPages(t *testing.T) {
	in(t, func(t *testing.T, w *world) {
		for i := range 25 {
			w.pass(time.Second)
			h := w.hold(fmt.Sprint("r", i%2), time.Hour)
			w.granted(h)
			w.release(h)
			w.log.Released(h, time.Now())
		}
		w.pass(0)
		var numbers []int64
		for q := (history.Query{Resource: "r0", Limit: 10}); ; {
			holds, err := w.log.Holds(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			if len(holds) == 0 {
				break
			}
			for _, h := range holds {
				if q.Before != 0 && h.Number >= q.Before {
					t.Errorf("%d after %d", h.Number, q.Before)
				}
				numbers = append(numbers, h.Number)
				q.Before = h.Number
			}
		}
		if len(numbers) != 13 {
			t.Errorf("%d holds, want 13", len(numbers))
		}
		since, err := w.log.Holds(t.Context(), history.Query{Resource: "r0", Since: time.Now().Add(-2 * time.Second)})
		if err != nil || len(since) != 2 {
			t.Errorf("%d holds of the last two seconds, error %v", len(since), err)
		}
	})
}

// What a look shows is written in a few transactions, however much that is.
func TestManyChanges(t *testing.T) {
	s := new(memory)
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, store: memlock.New(nil)}
		log, err := history.New(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		looker := sight.New(w.store, nil)
		defer looker.Close()
		defer log.Close()
		for i := range 10_000 {
			w.hold(fmt.Sprint(i), time.Hour)
		}
		log.Follow(looker)
		w.pass(2 * time.Second)
		if st := log.State(); st.Noted != 10_000 || st.Dropped != 0 || s.writes > 30 {
			t.Errorf("%+v by %d calls", st, s.writes)
		}
	})
}
