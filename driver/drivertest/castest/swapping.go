package castest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

var swapping = []subtest{
	{"swap_stores_what_it_is_given", swapStores},
	{"swap_needs_its_version", swapNeedsVersion},
	{"S32a_stale_swap", staleSwap},
	{"S32a_stale_deletion", staleDeletion},
	{"S32a_stale_creation", staleCreation},
	{"creation_after_the_clock_went_back", clockWentBack},
	{"versions_never_repeat", versionsNeverRepeat},
	{"no_update_is_lost", noLostUpdate},
	{"clock_is_read_again", clockReadAgain},
	{"dead_context", deadContext},
}

// The next load returns what was swapped in, field by field.
func swapStores(b *bench) {
	empty := b.load("r")
	if !empty.Missing || !reflect.DeepEqual(empty.Record, model.Record{Resource: "r"}) {
		b.t.Errorf("a resource never locked has record %+v, missing: %v", empty.Record, empty.Missing)
	}
	e := empty
	for i := range 20 {
		c := b.granted(e, fmt.Sprint("holder ", i))
		if h := &c.New.Holds[i]; i%2 == 0 { // a hold that has changed since its grant
			h.Renewed, h.Released = h.Created+1, true
			c.New.Places = append(c.New.Places, model.Place{ // never live, so never in the way
				ID: driver.PlaceID{byte(i + 1)}, LockID: "w", Since: h.Created, Asked: h.Created + 2, Until: h.Created + 1, Fair: true,
			})
		}
		e = b.must(c)
		if e.Missing || !same(e.Record, c.New) {
			b.t.Fatalf("swapped in\n%+v, loaded version %d\n%+v", c.New, e.Version, e.Record)
		}
	}
	for len(e.Record.Holds) > 0 {
		c := released(e)
		e = b.must(c)
		if !same(e.Record, c.New) {
			b.t.Fatalf("swapped in\n%+v, loaded\n%+v", c.New, e.Record)
		}
	}
}

// same compares records; no holds and an empty list of holds are the same.
func same(got, want model.Record) bool {
	if len(got.Holds)+len(want.Holds) == 0 {
		got.Holds, want.Holds = nil, nil
	}
	return reflect.DeepEqual(got, want)
}

// A swap with another version than the record's changes nothing and returns no error.
func swapNeedsVersion(b *bench) {
	empty := b.load("r")
	first := b.must(b.granted(empty, "a"))
	second := b.must(b.granted(first, "b"))
	for what, c := range map[string]cas.Change{
		"from before":      b.granted(first, "late"),
		"of a creation":    b.granted(empty, "late"),
		"of a release":     released(first),
		"of a deletion":    b.deleted(first),
		"of version 0":     {Old: 0, Create: true, New: second.Record, Delete: true},
		"of the next one":  {Old: second.Version + 1, New: second.Record},
		"of another key's": {Old: b.must(b.granted(b.load("other"), "a")).Version, New: first.Record},
	} {
		if c.Old != second.Version && b.swap(c) {
			b.t.Errorf("a swap with the version %s was made", what)
		}
	}
	b.same(second)
	if c := b.granted(b.load("never"), "a"); b.swap(cas.Change{Old: 7, New: c.New}) {
		b.t.Error("a missing record was changed")
	}
}

// A record is loaded, then released, deleted and made again by another caller. A swap on the
// loaded version is refused, even if the new record looks like the old one.
func staleSwap(b *bench) {
	e := b.must(b.granted(b.load("r"), "a"))
	stale := []cas.Change{b.granted(e, "late"), released(e), b.deleted(e)}
	e = b.must(released(e))
	stale = append(stale, b.granted(e, "late"), b.deleted(e))
	b.must(b.deleted(e))
	again := b.must(b.granted(b.load("r"), "a"))
	for i, c := range stale {
		if b.swap(c) {
			b.t.Errorf("stale swap %d was made", i)
		}
	}
	b.same(again)
}

// A deletion is a swap: it does not remove what was acquired since.
func staleDeletion(b *bench) {
	e := b.must(released(b.must(b.granted(b.load("r"), "a"))))
	sweep := b.deleted(e)
	held := b.must(b.granted(e, "b"))
	if b.swap(sweep) {
		b.t.Error("a record was deleted after it had changed")
	}
	b.same(held)
}

// A creation that was prepared before another one was made and deleted is refused: its token
// can be below tokens granted since.
func staleCreation(b *bench) {
	stale := b.granted(b.load("r"), "late")
	b.gone("r")
	if b.swap(stale) {
		b.t.Error("a creation from before a deletion was made")
	}
	b.must(b.granted(b.load("r"), "b"))
}

// If the clock was set back after a deletion, changes still work and no number repeats: for
// the backend it is as if the record had been made ahead of its clock.
func clockWentBack(b *bench) {
	for _, ahead := range []model.Record{
		{Token: uint64(time.Hour / time.Microsecond)},
		{Touched: model.Time(time.Hour / time.Microsecond)},
	} {
		c := b.granted(b.load("r"), "a")
		c.New.Token += ahead.Token
		c.New.Touched += ahead.Touched
		e := b.must(c)
		b.must(cas.Change{Old: e.Version, New: e.Record, Delete: true})
		again := b.granted(b.load("r"), "b")
		if again.New.Token <= e.Record.Token || again.New.Touched <= e.Record.Touched {
			b.t.Errorf("token %d, touched %d, after %d and %d were deleted",
				again.New.Token, again.New.Touched, e.Record.Token, e.Record.Touched)
		}
		e = b.must(again)
		b.must(cas.Change{Old: e.Version, New: e.Record, Delete: true})
	}
}

// No two states of a record have the same version, even across deletions.
func versionsNeverRepeat(b *bench) {
	seen := make(map[cas.Version]bool)
	note := func(e cas.Entry) cas.Entry {
		if e.Version == 0 || seen[e.Version] {
			b.t.Errorf("version %d repeats after %d states", e.Version, len(seen))
		}
		seen[e.Version] = true
		return e
	}
	for range 10 {
		e := note(b.must(b.granted(b.load("r"), "a")))
		e = note(b.must(b.granted(e, "b")))
		e = note(b.must(released(e)))
		e = note(b.must(released(e)))
		b.must(b.deleted(e))
	}
}

// Of racing changes on one state of a record exactly one is made, so each change is based on
// the previous one.
func noLostUpdate(b *bench) {
	const workers, rounds = 8, 20
	for round := range rounds {
		changes := make([]cas.Change, workers)
		for w := range workers {
			changes[w] = b.granted(b.load("r"), fmt.Sprint(round, "/", w))
		}
		var made atomic.Int32
		var all sync.WaitGroup
		for _, c := range changes {
			all.Go(func() {
				done, err := b.Swap(b.t.Context(), c)
				if err != nil {
					b.t.Error(err)
				}
				if done {
					made.Add(1)
				}
			})
		}
		all.Wait()
		if made.Load() != 1 {
			b.t.Fatalf("%d of %d swaps of one version were made, want 1", made.Load(), workers)
		}
	}
	if n := len(b.load("r").Record.Holds); n != rounds {
		b.t.Errorf("%d changes were made, %d are left", rounds, n)
	}
}

// Each load reads the clock, even if the record does not change.
func clockReadAgain(b *bench) {
	b.must(b.granted(b.load("r"), "a"))
	b.clockPasses("r", b.load("r").Now)
	b.clockPasses("none", b.load("none").Now)
}

// A swap whose context has ended changes nothing.
func deadContext(b *bench) {
	e := b.must(b.granted(b.load("r"), "a"))
	dead, cancel := context.WithCancel(b.t.Context())
	cancel()
	if done, err := b.Swap(dead, released(e)); done || !errors.Is(err, context.Canceled) {
		b.t.Errorf("swap with a dead context: %v, error %v", done, err)
	}
	b.same(e)
}
