package basetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/model"
)

var updating = []subtest{
	{"put_is_what_is_read", putIsRead},
	{"what_is_kept_is_as_it_was", keepChangesNothing},
	{"deleted_is_missing", deletedIsMissing},
	{"creation_after_the_clock_went_back", clockWentBack},
	{"no_update_is_lost", noLostUpdate},
	{"batches", batches},
	{"clock_is_read_again", clockReadAgain},
	{"dead_context", deadContext},
	{"wakes", wakes},
}

// The next decision sees what was put, field by field.
func putIsRead(b *bench) {
	if e := b.read("r"); !e.Missing || !same(e.Record, model.Record{Resource: "r"}) {
		b.t.Errorf("the entry of a resource that was never locked is %+v", e)
	}
	var made model.Record
	for i := range 20 {
		b.update("r", func(e base.Entry) base.Change {
			made = b.granted(e, fmt.Sprint("holder ", i), time.Hour)
			if h := &made.Holds[i]; i%2 == 0 { // a hold that has changed since its grant
				h.Renewed, h.Released = h.Created+1, true
				made.Places = append(made.Places, model.Place{
					ID: driver.PlaceID{byte(i + 1)}, LockID: "w", Mode: driver.Shared, Limit: 3, Owner: "ann", Host: `h"1`,
					Since: h.Created, Asked: h.Created + 2, Until: h.Created + 1, Fair: i%4 == 0, // never live
				})
			}
			return base.Change{Action: base.Put, Record: made}
		})
		b.is(b.read("r"), made)
	}
	b.is(b.read("r"), made)
	made = b.release("r")
	b.is(b.read("r"), made)
}

// Keep and Confirm do not change the record, except that a Confirm may be written.
func keepChangesNothing(b *bench) {
	made := b.grant("r", "a")
	for range 3 {
		b.is(b.read("r"), made)
	}
	b.update("r", func(e base.Entry) base.Change {
		return base.Change{Action: base.Confirm, Record: model.Touch(e.Record, e.Now)}
	})
	e := b.read("r")
	if e.Record.Touched < made.Touched {
		b.t.Errorf("a confirmation set Touched back from %d to %d", made.Touched, e.Record.Touched)
	}
	made.Touched = e.Record.Touched
	b.is(e, made)
	b.read("never")
	if n := len(b.due(0)); n != 0 {
		b.t.Errorf("%d records are due; reading a resource must make none", n)
	}
}

// A deleted record is missing, and the next record of the resource has higher numbers.
func deletedIsMissing(b *bench) {
	made := b.grant("r", "a")
	b.drop("r")
	if e := b.read("r"); !e.Missing || len(e.Record.Holds) != 0 {
		b.t.Errorf("the entry of a deleted record is %+v", e)
	}
	again := b.grant("r", "b")
	if again.Token <= made.Token || again.Touched <= made.Touched {
		b.t.Errorf("token %d, touched %d, after %d and %d were deleted", again.Token, again.Touched, made.Token, made.Touched)
	}
	b.is(b.read("r"), again)
}

// If the clock was set back after a deletion, changes still work and no number repeats: for
// the backend it is as if the record had been made ahead of its clock.
func clockWentBack(b *bench) {
	const hour = time.Hour / time.Microsecond
	for _, ahead := range []model.Record{{Token: uint64(hour)}, {Touched: model.Time(hour)}} {
		var gone model.Record
		b.update("r", func(e base.Entry) base.Change {
			gone = b.granted(e, "a", time.Hour)
			gone.Token += ahead.Token
			gone.Touched += ahead.Touched
			return base.Change{Action: base.Put, Record: gone}
		})
		b.drop("r")
		again := b.grant("r", "b")
		if again.Token <= gone.Token || again.Touched <= gone.Touched {
			b.t.Errorf("token %d, touched %d, after %d and %d were deleted", again.Token, again.Touched, gone.Token, gone.Touched)
		}
		b.is(b.read("r"), again)
		b.drop("r")
	}
}

// Each of several racing changes sees the changes before it.
func noLostUpdate(b *bench) {
	const workers, rounds = 8, 25
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := range rounds {
				us := []base.Update{{Resource: "r", Decide: func(e base.Entry) base.Change {
					return base.Change{Action: base.Put, Record: b.granted(e, fmt.Sprint(w, "/", i), time.Hour)}
				}}}
				err := b.Update(b.t.Context(), us, w%2 == 0)
				if err = errors.Join(err, us[0].Err); err != nil {
					b.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	holds := b.read("r").Record.Holds
	if len(holds) != workers*rounds {
		b.t.Errorf("%d changes were made, %d are left", workers*rounds, len(holds))
	}
	for i := 1; i < len(holds); i++ {
		if holds[i].Token <= holds[i-1].Token {
			b.t.Errorf("token %d follows token %d", holds[i].Token, holds[i-1].Token)
		}
	}
}

// A batch decides each resource independently.
func batches(b *bench) {
	const n = 300
	us := make([]base.Update, n)
	want := make([]model.Record, n)
	for i := range us {
		name := fmt.Sprint("r", i)
		if i%3 != 0 {
			want[i] = b.grant(name, "a")
		}
		us[i] = base.Update{Resource: name, Decide: func(e base.Entry) base.Change {
			if e.Record.Resource != name || e.Missing != (i%3 == 0) {
				b.t.Errorf("the decision about %q got %+v", name, e)
			}
			switch i % 3 {
			case 1:
				return base.Change{}
			case 2:
				return base.Change{Action: base.Delete, Record: e.Record}
			}
			want[i] = b.granted(e, "b", time.Hour)
			return base.Change{Action: base.Put, Record: want[i]}
		}}
	}
	if err := b.Update(b.t.Context(), us, false); err != nil {
		b.t.Fatal(err)
	}
	for i, u := range us {
		if u.Err != nil {
			b.t.Errorf("%q: %v", u.Resource, u.Err)
		}
		if e := b.read(u.Resource); i%3 == 2 && !e.Missing {
			b.t.Errorf("the entry of %q after its deletion is %+v", u.Resource, e)
		} else if i%3 != 2 {
			b.is(e, want[i])
		}
	}
}

// Each decision gets a new reading of the clock, even if the record does not change.
func clockReadAgain(b *bench) {
	b.grant("r", "a")
	for _, name := range []string{"r", "none"} {
		first := b.read(name).Now
		for deadline := time.Now().Add(3 * time.Second); b.read(name).Now <= first; {
			if time.Now().After(deadline) {
				b.t.Fatalf("the clock stands still for %q", name)
			}
		}
	}
}

// An update whose context has ended changes nothing.
func deadContext(b *bench) {
	made := b.grant("r", "a")
	dead, cancel := context.WithCancel(b.t.Context())
	cancel()
	for _, urgent := range []bool{false, true} {
		us := []base.Update{{Resource: "r", Decide: func(e base.Entry) base.Change {
			return base.Change{Action: base.Put, Record: b.granted(e, "late", time.Hour)}
		}}}
		err := b.Update(dead, us, urgent)
		if err == nil {
			err = us[0].Err
		}
		if !errors.Is(err, context.Canceled) {
			b.t.Errorf("update with a dead context: error %v", err)
		}
	}
	b.is(b.read("r"), made)
}

// Only changes with Wake give a signal.
func wakes(b *bench) {
	w, ok := b.Backend.(driver.Watcher)
	if !ok {
		b.t.Skip("this backend does not watch")
	}
	signals, err := w.Watch(b.t.Context(), "r")
	if errors.Is(err, driver.ErrUnsupported) {
		b.t.Skip("this backend does not watch")
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.grant("r", "a")
	select {
	case <-signals:
		b.t.Error("a grant gave a signal")
	default:
	}
	b.release("r")
	select {
	case _, open := <-signals:
		if !open {
			b.t.Error("the channel was closed")
		}
	case <-time.After(10 * time.Second):
		b.t.Error("a release gave no signal")
	}
}
