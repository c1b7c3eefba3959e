// Package fencetest checks whether a fence refuses the writes of stale holders, as drivertest
// checks stores.
//
// A fence protects one place, such as a row, a document or a file. The place has a value,
// here a number, and the largest token that it has seen. The test of a fence makes a
// [Harness], which claims and writes through the fence, and reads and damages the place
// without it, and calls Run:
//
//	func TestFence(t *testing.T) {
//		fencetest.Run(t, func(t *testing.T) *fencetest.Harness {
//			place := makeTable(t) // a new one, with the value 1 and no token
//			return &fencetest.Harness{
//				Claim: place.row.Claim,
//				Write: func(ctx context.Context, value int64, token uint64) error {
//					return place.row.Update(ctx, map[string]any{"n": value}, token)
//				},
//				Value: place.value,
//				Seen:  place.seen,
//				…
//			}
//		})
//	}
//
// Leave out what a kind of place cannot have: its subtests are skipped by name. Properties of
// only one fence, such as several statements in one transaction, stay in that fence's own
// tests.
package fencetest

import (
	"context"
	"errors"
	"testing"

	"github.com/holdfast-go/holdfast"
)

// Harness is one fence and the place that it protects. The place has the value 1 and has seen
// no token. Nothing else may use it.
type Harness struct {
	// Claim registers the token and changes nothing else.
	Claim func(ctx context.Context, token uint64) error
	// Write changes the value of the place, which must exist, and registers the token. The
	// suite calls it from several goroutines.
	Write func(ctx context.Context, value int64, token uint64) error
	// Put is like Write but makes the place if it does not exist. nil: the fence has no such
	// operation.
	Put func(ctx context.Context, value int64, token uint64) error

	// Value returns the value of the place, read without the fence from where the latest
	// value is. It is not called for a place that does not exist.
	Value func(t *testing.T) int64
	// Seen returns the token of the place, or 0 for none.
	Seen func(t *testing.T) uint64

	// NotFound is the error for a place that does not exist, and Remove deletes the place.
	// nil: the place always exists.
	NotFound error
	Remove   func(t *testing.T)
	// Twin makes a second place with the same value that the fence's key or filter also
	// selects. nil: it can select only one.
	Twin func(t *testing.T)
	// Damages replace the place's token by something else, such as a text, an array or a
	// value that is not a number. The fence must return holdfast.ErrDamaged. nil: the place
	// can have only tokens.
	Damages map[string]func(t *testing.T)
	// Losses make the place lose the registered token although the write seems to succeed,
	// such as a trigger that keeps the old token or a field that is not stored. The fence
	// must then return an error, whether it has written or not.
	Losses map[string]func(t *testing.T)
}

// bench is a Harness in one subtest.
type bench struct {
	*Harness
	t    *testing.T
	open func(t *testing.T) *Harness
}

var subtests = []struct {
	name string
	run  func(b *bench)
}{
	{"first_token", firstToken},
	{"claim_changes_nothing_else", claimChangesNothingElse},
	{"S02_stopped_holder", stoppedHolder},
	{"S10_equal_tokens_pass", equalTokensPass},
	{"S10_stale_is_refused", staleIsRefused},
	{"S10_out_of_order", outOfOrder},
	{"tokens_are_exact", tokensAreExact},
	{"no_token", noToken},
	{"dead_context", deadContext},
	{"not_there", notThere},
	{"made_by_put", madeByPut},
	{"put_after_removal", putAfterRemoval},
	{"several_places", severalPlaces},
	{"damaged", damaged},
	{"not_registered", notRegistered},
}

// Run checks the fence that open makes, with a new place for each subtest. The subtests run
// in parallel.
func Run(t *testing.T, open func(t *testing.T) *Harness) {
	for _, s := range subtests {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.run(&bench{open(t), t, open})
		})
	}
}

// each runs a subtest for each way to damage a place, with a place of its own.
func (b *bench) each(ways map[string]func(t *testing.T), run func(b *bench, way string)) {
	for way := range ways {
		b.t.Run(way, func(t *testing.T) {
			t.Parallel()
			run(&bench{b.open(t), t, b.open}, way)
		})
	}
}

// needs skips the subtest if the fence lacks what it needs.
func (b *bench) needs(can bool, what string) {
	b.t.Helper()
	if !can {
		b.t.Skip("this fence or its harness has no " + what)
	}
}

func (b *bench) claim(token uint64) error { return b.Claim(b.t.Context(), token) }

func (b *bench) write(value int64, token uint64) error {
	return b.Write(b.t.Context(), value, token)
}

// ops are the operations of the fence: each must check the token.
func (b *bench) ops() map[string]func(value int64, token uint64) error {
	ops := map[string]func(int64, uint64) error{
		"a claim": func(_ int64, token uint64) error { return b.claim(token) },
		"a write": b.write,
	}
	if b.Put != nil {
		ops["a put"] = b.put
	}
	return ops
}

func (b *bench) put(value int64, token uint64) error { return b.Put(b.t.Context(), value, token) }

// done fails the test unless err is nil.
func (b *bench) done(what string, err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%s: %v", what, err)
	}
}

// refused fails the test unless err matches want and no other named error.
func (b *bench) refused(what string, err, want error) {
	b.t.Helper()
	if !errors.Is(err, want) {
		b.t.Errorf("%s: error %v, want %v", what, err, want)
	}
	for _, other := range []error{holdfast.ErrStale, holdfast.ErrDamaged, holdfast.ErrInvalid, b.NotFound} {
		if other != nil && !errors.Is(want, other) && errors.Is(err, other) {
			b.t.Errorf("%s: the error says %v, too: %v", what, other, err)
		}
	}
}

// failed fails the test unless err is an error other than the named ones.
func (b *bench) failed(what string, err error) {
	b.t.Helper()
	switch {
	case err == nil:
		b.t.Errorf("%s: no error", what)
	case errors.Is(err, holdfast.ErrStale) || b.NotFound != nil && errors.Is(err, b.NotFound):
		b.t.Errorf("%s: error %v is another named error", what, err)
	}
}

// has compares the place with the expected value and token.
func (b *bench) has(what string, value int64, seen uint64) {
	b.t.Helper()
	if got := b.Value(b.t); got != value {
		b.t.Errorf("%s: the value is %d, want %d", what, got, value)
	}
	if got := b.Seen(b.t); got != seen {
		b.t.Errorf("%s: the token is %d, want %d", what, got, seen)
	}
}
