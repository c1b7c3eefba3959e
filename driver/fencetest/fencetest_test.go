package fencetest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/fencetest"
	"github.com/holdfast-go/holdfast/internal/selftest"
)

var errNotFound = errors.New("not found")

// place is a fence in memory, which can break a rule.
type place struct {
	mutant string

	mu      sync.Mutex
	there   bool
	value   int64
	seen    uint64
	damaged bool
	forgets bool
	twin    bool
}

func (p *place) is(mutant string) bool { return p.mutant == mutant }

func (p *place) set(ctx context.Context, value *int64, token uint64, makes bool) error {
	if err := ctx.Err(); err != nil && !p.is("sends with a dead ctx") {
		return err
	}
	if (token == 0 || token > driver.MaxToken) && !p.is("takes any token") {
		return fmt.Errorf("%w: %d is not a token", holdfast.ErrInvalid, token)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := p.seen
	if p.is("compares as float32") {
		token, seen = uint64(float32(token)), uint64(float32(seen))
	}
	switch {
	case !p.there && !makes && !p.is("creates a missing place"):
		return errNotFound
	case p.damaged && !p.is("takes damage for no token"):
		if p.is("takes damage for a large token") {
			return holdfast.ErrStale
		}
		return holdfast.ErrDamaged
	case p.twin && !p.is("takes one of several"):
		return errors.New("there are two")
	case token < seen && !p.is("refuses nobody") && !(value == nil && p.is("claims refuse nobody")) && !(makes && p.is("puts refuse nobody")):
		return holdfast.ErrStale
	case token == seen && p.is("refuses equal tokens"):
		return holdfast.ErrStale
	}
	p.there, p.damaged = true, false
	switch {
	case value != nil:
		p.value = *value
	case p.is("claims write"):
		p.value = 0
	}
	switch {
	case p.forgets:
		if !p.is("does not check what was stored") {
			return errors.New("it is not stored")
		}
	case value == nil && p.is("claims register nothing"):
	case value != nil && p.is("writes register nothing"):
	case makes && p.is("puts register nothing"):
	default:
		p.seen = token
	}
	return nil
}

func open(mutant string) *fencetest.Harness {
	p := &place{mutant: mutant, there: true, value: 1}
	return &fencetest.Harness{
		Claim: func(ctx context.Context, token uint64) error { return p.set(ctx, nil, token, false) },
		Write: func(ctx context.Context, value int64, token uint64) error { return p.set(ctx, &value, token, false) },
		Put:   func(ctx context.Context, value int64, token uint64) error { return p.set(ctx, &value, token, true) },
		Value: func(*testing.T) int64 { return p.value }, Seen: func(*testing.T) uint64 { return p.seen },
		NotFound: errNotFound, Remove: func(*testing.T) { p.there, p.value, p.seen = false, 0, 0 },
		Twin:    func(*testing.T) { p.twin = true },
		Damages: map[string]func(*testing.T){"a text": func(*testing.T) { p.damaged = true }},
		Losses:  map[string]func(*testing.T){"a trigger": func(*testing.T) { p.forgets = true }},
	}
}

func TestSuite(t *testing.T) {
	fencetest.Run(t, func(*testing.T) *fencetest.Harness { return open("") })
}

// TestMutant is run by TestMutants in processes of its own.
func TestMutant(t *testing.T) {
	mutant := selftest.Subject(t)
	fencetest.Run(t, func(*testing.T) *fencetest.Harness { return open(mutant) })
}

// The suite does not use what a fence leaves out.
func TestPlainFence(t *testing.T) {
	fencetest.Run(t, func(*testing.T) *fencetest.Harness {
		h := open("")
		return &fencetest.Harness{Claim: h.Claim, Write: h.Write, Value: h.Value, Seen: h.Seen}
	})
}

// For every fault of a fence there is a subtest that catches it.
func TestMutants(t *testing.T) {
	for mutant, subtest := range map[string]string{
		"refuses nobody":                 "S02_stopped_holder",
		"claims refuse nobody":           "S10_stale_is_refused",
		"puts refuse nobody":             "S10_stale_is_refused",
		"refuses equal tokens":           "S10_equal_tokens_pass",
		"claims register nothing":        "claim_changes_nothing_else",
		"writes register nothing":        "first_token",
		"puts register nothing":          "made_by_put",
		"claims write":                   "claim_changes_nothing_else",
		"compares as float32":            "tokens_are_exact",
		"takes any token":                "no_token",
		"sends with a dead ctx":          "dead_context",
		"creates a missing place":        "not_there",
		"takes one of several":           "several_places",
		"takes damage for no token":      "damaged",
		"takes damage for a large token": "damaged",
		"does not check what was stored": "not_registered",
	} {
		t.Run(mutant, func(t *testing.T) {
			t.Parallel()
			selftest.Catches(t, "TestMutant", mutant, subtest)
		})
	}
}
