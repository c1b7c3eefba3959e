package drivertest

import (
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

var waiters = []subtest{
	{"waiters_are_noted", waitersAreNoted},
	{"waiters_are_not_noted", waitersAreNotNoted},
	{"notes_are_seldom", notesAreSeldom},
	{"notes_of_shared_holds", notesOfSharedHolds},
	{"S28a_notes_wake_nobody", notesWakeNobody},
}

func (b *bench) needsWaiters() {
	b.t.Helper()
	b.needs(b.Store.Traits().Waiters, "notes of who waits")
}

func (b *bench) needsSetClock() {
	b.t.Helper()
	b.needs(b.Advance != nil, "clock that can be set")
}

// waited is the note on a hold, which must be live.
func (b *bench) waited(h hold) time.Time {
	b.t.Helper()
	return b.live(h).Waited
}

// noted checks that the hold has a note of a waiter, and when: not before it was old
// enough, and exactly now if that is known.
func (b *bench) noted(h hold, what string) time.Time {
	b.t.Helper()
	s := b.live(h)
	switch {
	case s.Waited.IsZero():
		b.t.Fatalf("%s: no waiter was noted for %q", what, h.Resource)
	case s.Waited.Before(s.Created.Add(driver.NoteAfter)):
		b.t.Errorf("%s: noted at %v, too soon for a hold made at %v", what, s.Waited, s.Created)
	case b.Now != nil && !s.Waited.Equal(b.Now()):
		b.t.Errorf("%s: noted at %v, want %v", what, s.Waited, b.Now())
	}
	return s.Waited
}

// notNoted checks that the hold has no note.
func (b *bench) notNoted(h hold, what string) {
	b.t.Helper()
	if at := b.waited(h); !at.IsZero() {
		b.t.Fatalf("%s: a waiter was noted at %v for %q", what, at, h.Resource)
	}
}

// A waiter for a hold that is not a short one is noted on the hold. The note lasts as
// long as the hold.
func waitersAreNoted(b *bench) {
	b.needsWaiters()
	start := time.Now()
	h := b.acquire(b.request("r", "a").ttl(2 * b.long))
	b.refused(b.request("r", "b").waiting())
	if b.Advance != nil || time.Since(start) < driver.NoteAfter {
		b.notNoted(h, "a hold just made")
	}
	b.pass(driver.NoteAfter)
	b.refused(b.request("r", "b"))
	b.acquire(request(h.request).waiting())
	b.notNoted(h, "refusal of one who does not wait, and a repeat")
	left := b.live(h).Left
	b.refused(b.request("r", "b").waiting())
	at := b.noted(h, "refusal of one who waits")
	if s := b.live(h); b.Now != nil && s.Left != left || !s.Renewed.IsZero() || s.Released {
		b.t.Errorf("with the note the hold is %+v", s)
	}
	for name, change := range map[string]func(){
		"one who waits, once more": func() { b.refused(b.request("r", "c").waiting()) },
		"renewal":                  func() { b.renew(h.HoldRef, 3*b.long) },
		"sweep":                    func() { b.sweep(b.long) },
	} {
		if change(); !b.waited(h).Equal(at) {
			b.t.Errorf("after %s the note is of %v, was of %v", name, b.waited(h), at)
		}
	}
	b.release(h.HoldRef, b.long)
	if !b.waited(h).Equal(at) {
		b.t.Errorf("given up, the note is of %v, was of %v", b.waited(h), at)
	}
	b.release(h.HoldRef, 0)
	b.notNoted(b.acquire(b.request("r", "b").waiting()), "the next hold")
}

// A store that notes nothing shows nothing.
func waitersAreNotNoted(b *bench) {
	if b.Store.Traits().Waiters {
		b.t.Skip("this store notes who waits")
	}
	h := b.acquire(b.request("r", "a"))
	b.pass(driver.NoteAfter)
	b.refused(b.request("r", "b").waiting())
	b.notNoted(h, "a store without the trait")
}

// While many wait for a hold, it is written to as often as if one did.
func notesAreSeldom(b *bench) {
	b.needsWaiters()
	b.needsSetClock()
	h := b.acquire(b.request("r", "a").ttl(driver.Forever))
	b.Advance(driver.NoteAfter - time.Millisecond)
	b.refused(b.request("r", "b").waiting())
	b.notNoted(h, "a hold that is not old enough")
	b.Advance(time.Millisecond)
	for range 3 {
		b.refused(b.request("r", "b").waiting())
		at := b.noted(h, "a note that is due")
		b.Advance(driver.NoteEvery - time.Millisecond)
		for i := range 10 {
			b.refused(b.request("r", fmt.Sprint("waiter ", i)).waiting())
		}
		if now := b.waited(h); !now.Equal(at) {
			b.t.Errorf("noted at %v and again at %v", at, now)
		}
		b.Advance(time.Millisecond)
	}
}

// The note is on the holds that are in the way, on those that are young too if it
// is due on another, and on no others.
func notesOfSharedHolds(b *bench) {
	b.needsWaiters()
	b.needsShared()
	b.needsSetClock()
	old := b.acquire(b.request("r", "a").shared(3))
	b.Advance(driver.NoteAfter)
	young := b.acquire(b.request("r", "b").shared(3))
	b.acquire(b.request("r", "c").shared(3).waiting())
	b.refused(b.request("r", "b").shared(3).waiting())
	b.notNoted(old, "one who is in nobody's way")
	b.notNoted(young, "one who is young")
	b.refused(b.request("r", "d").shared(3).waiting())
	b.notedTogether(old, young, "one who waits for a permit")

	old = b.acquire(b.request("s", "a").shared(0))
	b.Advance(driver.NoteAfter)
	young = b.acquire(b.request("s", "b").shared(0))
	b.refused(b.request("s", "c").waiting())
	b.notedTogether(old, young, "one who waits to be alone")
}

func (b *bench) notedTogether(old, young hold, what string) {
	b.t.Helper()
	if at, also := b.noted(old, what), b.waited(young); !also.Equal(at) {
		b.t.Errorf("%s: noted on one hold at %v, on the other at %v", what, at, also)
	}
}

// A note wakes no waiter: otherwise waiters would wake one another.
func notesWakeNobody(b *bench) {
	b.needsWaiters()
	b.needsWatch()
	h := b.acquire(b.request("r", "a"))
	b.pass(driver.NoteAfter)
	here, _ := b.watch("r")
	elsewhere, _ := b.watchAt(b.t.Context(), b.other(), "r")
	b.refused(b.request("r", "b").waiting())
	b.noted(h, "refusal of one who waits")
	b.quiet(here, "a note")
	b.quiet(elsewhere, "a note, at another handle")
	b.release(h.HoldRef, 0)
	b.wakes(here, "release")
	b.wakes(elsewhere, "release, at another handle")
}
