package cas_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/model"
)

// heldForLong returns a backend with a hold on r on which a note is due, and a
// request that would leave it.
func heldForLong(t *testing.T) (*backend, driver.AcquireRequest) {
	t.Helper()
	b := newBackend()
	holder := ask("r", "a")
	holder.TTL = driver.Forever
	mustAcquire(t, cas.New(b), holder)
	b.now += model.Time(driver.NoteAfter / time.Microsecond)
	b.trips = 0
	q := ask("r", "b")
	q.Waiting = true
	return b, q
}

func refused(t *testing.T, err error) {
	t.Helper()
	var held *driver.HeldError
	if !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0].LockID != "a" {
		t.Errorf("error %v; want a *driver.HeldError about a", err)
	}
}

// The answer is the refusal, even if the note cannot be written. The note is tried once and
// wakes nobody.
func TestNoteChangesNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		what  mishap
		noted bool
	}{
		"made":         {nothing, true},
		"conflict":     {conflict, false},
		"fails before": {failsBefore, false},
		"fails after":  {failsAfter, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, q := heldForLong(t)
			b.mishaps = func(string) mishap { return c.what }
			_, err := cas.New(b).Acquire(t.Context(), q)
			refused(t, err)
			if b.trips != 2 {
				t.Errorf("%d trips, want one to load and one to note", b.trips)
			}
			if at := b.records["r"].Record.Holds[0].Waited; (at == b.now) != c.noted {
				t.Errorf("noted at %d, now is %d; noted should be %v", at, b.now, c.noted)
			}
			if len(b.woken) != 0 {
				t.Errorf("woken: %q", b.woken)
			}
		})
	}
}

// A refusal that leaves no note sends nothing.
func TestRefusalWithoutNote(t *testing.T) {
	b, q := heldForLong(t)
	s := cas.New(b)
	_, err := s.Acquire(t.Context(), q) // leaves one
	refused(t, err)
	b.trips = 0
	_, err = s.Acquire(t.Context(), q)
	refused(t, err)
	if b.trips != 1 {
		t.Errorf("%d trips, want one", b.trips)
	}
}

// A backend that hangs when it is to note keeps nobody waiting for long, and the
// end of ctx meanwhile does not undo the answer.
func TestNoteHangs(t *testing.T) {
	for name, c := range map[string]struct{ timeout, took time.Duration }{
		"ctx lasts": {time.Minute, time.Second},
		"ctx ends":  {time.Millisecond, time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, q := heldForLong(t)
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				start := time.Now()
				_, err := cas.New(hanging{b}).Acquire(ctx, q)
				refused(t, err)
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

// hanging never answers a swap.
type hanging struct{ *backend }

func (hanging) Swap(ctx context.Context, _ cas.Change) (bool, error) {
	<-ctx.Done()
	return false, ctx.Err()
}
