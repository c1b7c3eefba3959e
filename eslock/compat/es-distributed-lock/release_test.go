package lock

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestRelease(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		b.must(l.Release())
		b.is(l, false, true)
		if l.Expires.After(time.Now()) {
			t.Errorf("released, it expires %v", l.Expires)
		}
		b.must(l.Release())
		nothing(t, l)
		b.must(b.lock("other").Acquire(t.Context(), 16*time.Second))
		b.refused(l.Acquire(t.Context(), time.Second))
		b.must(l.Release())
		if b.holder() != "other" {
			t.Error("released the lock of another owner")
		}
	})
}

// nothing checks that there is nothing to release.
func nothing(t *testing.T, l *Lock) {
	t.Helper()
	if err := l.MustRelease(); !errors.Is(err, errReleased) && !errors.Is(err, errNoRelease) {
		t.Errorf("MustRelease: error %v", err)
	}
}

// Releases by a Lock that did not acquire the lock.
func TestReleaseOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		nothing(t, b.lock("me"))
		b.must(b.lock("me").Release())
		b.acquired("me", 16*time.Second)
		nothing(t, b.lock("other"))
		b.must(b.lock("other").Release())
		if b.holder() != "me" {
			t.Fatal("released the lock of another owner")
		}
		b.must(b.lock("me").MustRelease()) // the program was restarted
		if b.holder() != "" {
			t.Error("not released")
		}
	})
}

// A Lock that lost its hold, or tried in vain, does not release what another Lock of the
// owner has acquired since then.
func TestReleaseOfSuccessor(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		late := b.acquired("me", time.Second)
		time.Sleep(time.Minute)
		b.acquired("other", time.Second)
		failed := b.lock("me")
		b.refused(failed.Acquire(t.Context(), time.Second))
		time.Sleep(time.Minute)
		b.acquired("me", time.Hour)
		for _, l := range []*Lock{late, failed} {
			b.must(l.Release())
			nothing(t, l)
		}
		if b.holder() != "me" {
			t.Error("released the hold of another Lock")
		}
	})
}

// A release without an answer is repeated, and reports that the hold existed.
func TestReleaseRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.on(drivertest.Release, drivertest.Fault{LoseReply: true}, 1, 2, 3)
		b.must(b.acquired("me", 16*time.Second).MustRelease())
		if n := b.Calls(drivertest.Release); n != 4 {
			t.Errorf("sent %d times", n)
		}
	})
}

// The same is true for a restarted program, which first looks for the hold.
func TestReleaseOfOwnerRepeated(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.acquired("me", 16*time.Second)
		b.on(drivertest.Release, drivertest.Fault{LoseReply: true}, 1, 2)
		b.must(b.lock("me").MustRelease())
		if n := b.Calls(drivertest.Release); n != 3 || b.holder() != "" {
			t.Errorf("sent %d times, and %q holds it", n, b.holder())
		}
		nothing(t, b.lock("me"))
	})
}

// If no release is answered, that is an error. The lock then counts as given up, and can
// be released again.
func TestReleaseFails(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.acquired("me", 16*time.Second)
		b.must(l.KeepAlive(t.Context(), 6*time.Second))
		b.on(drivertest.Release, drivertest.Fault{LoseRequest: true})
		began := time.Now()
		for _, release := range []func() error{l.Release, l.MustRelease} {
			if err := release(); !errors.Is(err, drivertest.ErrFault) {
				t.Errorf("error %v", err)
			}
		}
		if took := time.Since(began); took > 2*patience {
			t.Errorf("gave up after %v", took)
		}
		b.is(l, false, false)
		b.heal()
		b.must(l.MustRelease())
		b.is(l, false, true)
		if b.holder() != "" {
			t.Error("not released")
		}

		l = b.acquired("me", 16*time.Second)
		b.on(drivertest.Release, drivertest.Fault{LoseRequest: true})
		if l.Release() == nil {
			t.Error("no error")
		}
		time.Sleep(16 * time.Second)
		b.is(l, false, true) // without another call
	})
}

// A lock of an Acquire without an answer is released, so that others need not wait.
func TestAcquireWithoutAnswer(t *testing.T) {
	for name, fault := range map[string]drivertest.Fault{
		"request lost": {LoseRequest: true},
		"answer lost":  {LoseReply: true},
		"hangs":        {HoldReply: make(chan struct{})},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				if fault.HoldReply != nil {
					fault.HoldReply = make(chan struct{}) // made inside the bubble
				}
				b.on(drivertest.Acquire, fault, 1)
				l := b.lock("me")
				began := time.Now()
				if err := l.Acquire(t.Context(), time.Hour); err == nil || errors.Is(err, context.Canceled) {
					t.Errorf("error %v", err)
				} else if fault.HoldReply != nil && !strings.Contains(err.Error(), "no answer within 10s, the most for a lock of 1h0m0s") {
					t.Errorf("the error %q does not name the time limit", err)
				}
				if took := time.Since(began); took > attemptTime(time.Hour) {
					t.Errorf("took %v", took)
				}
				b.is(l, false, true)
				nothing(t, l)
				b.must(b.lock("other").Acquire(t.Context(), time.Second))
			})
		})
	}
}

// A caller whose ctx has ended does not wait until its lock is given back.
func TestGivenBackLater(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		b.on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})})
		arrive := make(chan struct{})
		b.on(drivertest.Release, drivertest.Fault{HoldRequest: arrive}, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		l := b.lock("me")
		if err := l.Acquire(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if b.holder() != "me" {
			t.Fatal("it was not granted")
		}
		time.Sleep(patience)
		if b.holder() != "" {
			t.Error("it was not given back")
		}
	})
}

// A Lock does not extend a hold that it has given up, because a late release may end it
// at any time.
func TestLateRelease(t *testing.T) {
	for name, giveUp := range map[string]func(b *bench, l *Lock){
		"of an Acquire without an answer": func(b *bench, l *Lock) {
			b.on(drivertest.Acquire, drivertest.Fault{LoseReply: true}, 1)
			if l.Acquire(b.t.Context(), time.Hour) == nil {
				b.t.Error("no error")
			}
		},
		"of a Release without an answer": func(b *bench, l *Lock) {
			b.must(l.Acquire(b.t.Context(), time.Hour))
			if l.Release() == nil {
				b.t.Error("no error")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				arrive := make(chan struct{})
				b.on(drivertest.Release, drivertest.Fault{HoldRequest: arrive, LoseReply: true})
				l := b.lock("me")
				giveUp(b, l)
				if b.holder() != "me" {
					t.Fatal("the hold does not exist")
				}
				b.heal()
				b.must(l.Acquire(t.Context(), time.Hour))
				close(arrive)
				synctest.Wait()
				if b.holder() != "me" {
					t.Error("a late release ended it")
				}
				b.is(l, true, false)
			})
		})
	}
}

// The hold of an unanswered Acquire is given back only if no other Lock of the owner has
// joined it: that Lock would believe that it has a lock that others can acquire.
func TestJoinedIsNotGivenBack(t *testing.T) {
	for name, late := range map[string]bool{"while it waits": false, "before the release arrives": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bench) {
				arrive, done := make(chan struct{}), make(chan error, 1)
				b.on(drivertest.Acquire, drivertest.Fault{HoldReply: make(chan struct{})}, 1)
				b.on(drivertest.Release, drivertest.Fault{HoldRequest: arrive})
				go func() { done <- b.lock("me").Acquire(t.Context(), time.Hour) }()
				synctest.Wait()
				if late {
					time.Sleep(attemptTime(time.Hour))
				}
				l := b.acquired("me", time.Hour)
				close(arrive)
				if <-done == nil {
					t.Error("no error")
				}
				synctest.Wait()
				b.refused(b.lock("other").Acquire(t.Context(), time.Hour))
				b.must(l.MustRelease())
				b.acquired("other", time.Hour)
			})
		})
	}
}

// After a long time, a hold that was given up is forgotten.
func TestGivenUpIsForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bench) {
		l := b.lock("me")
		for range 100 {
			b.must(l.Acquire(t.Context(), time.Second))
			b.must(l.Release())
			time.Sleep(10 * time.Second)
		}
		if n := len(l.state.givenUp); n > 10 {
			t.Errorf("%d released holds are remembered", n)
		}
	})
}
