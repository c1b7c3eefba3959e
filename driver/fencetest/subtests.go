package fencetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

const maxToken = driver.MaxToken

// A place that has seen no token accepts any token.
func firstToken(b *bench) {
	b.done("the first write", b.write(2, 5))
	b.has("the first write", 2, 5)
}

func claimChangesNothingElse(b *bench) {
	b.done("a claim", b.claim(5))
	b.has("a claim", 1, 5)
	b.done("a claim again", b.claim(5))
	b.has("a claim again", 1, 5)
	b.done("a later claim", b.claim(6))
	b.has("a later claim", 1, 6)
}

// A holder is stopped beyond its end. Its successor claims and reads. Later requests of the
// stopped holder are refused, and the successor's write is not lost.
func stoppedHolder(b *bench) {
	b.done("the first holder's claim", b.claim(5))
	b.done("the successor's claim", b.claim(6))
	b.refused("the first holder's write", b.write(666, 5), holdfast.ErrStale)
	b.has("a refused write", 1, 6)
	b.done("the successor's write", b.write(2, 6))
	b.refused("the first holder's write again", b.write(666, 5), holdfast.ErrStale)
	b.has("the successor's write", 2, 6)
}

// A holder writes more than once, and a request may be repeated.
func equalTokensPass(b *bench) {
	for range 2 {
		b.done("a write", b.write(2, 5))
	}
	b.done("another write", b.write(3, 5))
	b.done("a claim", b.claim(5))
	b.has("writes of one holder", 3, 5)
	if b.Put != nil {
		b.done("a put", b.put(4, 5))
		b.has("a put", 4, 5)
	}
}

func staleIsRefused(b *bench) {
	b.done("a write", b.write(2, 6))
	for name, op := range b.ops() {
		for _, token := range []uint64{1, 5} {
			b.refused(name, op(666, token), holdfast.ErrStale)
			b.has(name+" that is refused", 2, 6)
		}
	}
}

// Concurrent writes, in any order, leave the largest token and its value.
func outOfOrder(b *bench) {
	const writers, each = 4, 10
	tokens := rand.Perm(writers * each)
	var all sync.WaitGroup
	for part := range writers {
		all.Go(func() {
			for i := part; i < len(tokens); i += writers {
				token := uint64(tokens[i] + 1)
				// Other writes may be too late; the one with the largest token never is.
				err := b.write(int64(token), token)
				if token == uint64(len(tokens)) && err != nil {
					b.t.Errorf("the write with the largest token: %v", err)
				} else if err != nil && !errors.Is(err, holdfast.ErrStale) {
					b.t.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.has("many writes", int64(len(tokens)), uint64(len(tokens)))
}

// Tokens that differ by one are distinguished up to the largest: they are not converted to
// float32 or to negative numbers.
func tokensAreExact(b *bench) {
	b.done("a write", b.write(2, maxToken-1))
	b.refused("a write", b.write(666, maxToken-2), holdfast.ErrStale)
	b.has("a write", 2, maxToken-1)
	b.done("the last claim", b.claim(maxToken))
	b.refused("a write", b.write(666, maxToken-1), holdfast.ErrStale)
	b.has("the last claim", 2, maxToken)
	b.done("the last write", b.write(3, maxToken))
	b.has("the last write", 3, maxToken)
}

// A number that cannot be a token is not sent.
func noToken(b *bench) {
	for name, op := range b.ops() {
		for _, token := range []uint64{0, maxToken + 1, 1 << 63} {
			b.refused(fmt.Sprint(name, " with ", token), op(666, token), holdfast.ErrInvalid)
		}
	}
	b.has("what is no token", 1, 0)
}

func deadContext(b *bench) {
	ctx, cancel := context.WithCancel(b.t.Context())
	cancel()
	for name, err := range map[string]error{
		"a claim": b.Claim(ctx, 5), "a write": b.Write(ctx, 666, 5),
	} {
		b.refused(name, err, context.Canceled)
	}
	b.has("a dead ctx", 1, 0)
}

// A claim or a write of a place that does not exist does nothing: it registers no token.
func notThere(b *bench) {
	b.needs(b.Remove != nil, "places that are not there")
	b.Remove(b.t)
	for range 2 { // and creates no place
		b.refused("a claim", b.claim(5), b.NotFound)
		b.refused("a write", b.write(2, 5), b.NotFound)
	}
}

// A new place has the token of its creator.
func madeByPut(b *bench) {
	b.needs(b.Put != nil && b.Remove != nil, "way to make a place")
	b.Remove(b.t)
	b.done("a put", b.put(2, 6))
	b.has("a put", 2, 6)
	for name, op := range b.ops() {
		b.refused(name, op(666, 5), holdfast.ErrStale)
	}
	b.done("a put with a larger token", b.put(3, 7))
	b.has("puts", 3, 7)
}

// A deleted place has lost its token. Several concurrent writers that make it again, in any
// order, leave the largest token there.
func putAfterRemoval(b *bench) {
	b.needs(b.Put != nil && b.Remove != nil, "way to make a place")
	b.done("a write", b.write(2, 3))
	b.Remove(b.t)
	const makers = 8
	var all sync.WaitGroup
	for _, i := range rand.Perm(makers) {
		all.Go(func() {
			token := uint64(i + 1)
			err := b.put(int64(token), token)
			if token == makers && err != nil {
				b.t.Errorf("the put with the largest token: %v", err)
			} else if err != nil && !errors.Is(err, holdfast.ErrStale) {
				b.t.Error(err)
			}
		})
	}
	all.Wait()
	b.has("many puts", makers, makers)
}

// If a key selects several places, one could be written and another refused: all are refused,
// and nothing is written.
func severalPlaces(b *bench) {
	b.needs(b.Twin != nil, "key that chooses several places")
	b.Twin(b.t)
	b.failed("a claim of two places", b.claim(5))
	b.failed("a write of two places", b.write(666, 5))
	b.has("the first of two places", 1, 0)
	b.refused("no token, and two places", b.claim(0), holdfast.ErrInvalid)
}

func damaged(b *bench) {
	b.needs(len(b.Damages) > 0, "way to damage a token")
	b.each(b.Damages, damagedBy)
}

// A value that is no token counts neither as a small nor as a large one.
func damagedBy(b *bench, way string) {
	b.Damages[way](b.t)
	for what, op := range b.ops() {
		b.refused(what, op(666, 5), holdfast.ErrDamaged)
		b.refused(what, op(666, maxToken), holdfast.ErrDamaged)
	}
	if got := b.Value(b.t); got != 1 {
		b.t.Errorf("the value is %d", got)
	}
}

func notRegistered(b *bench) {
	b.needs(len(b.Losses) > 0, "way to lose a token")
	b.each(b.Losses, losesBy)
}

// A fence that cannot register a token returns an error: otherwise it would accept stale
// writes.
func losesBy(b *bench, way string) {
	b.done("a write before", b.write(1, 4))
	b.Losses[way](b.t)
	b.failed("a claim that is not registered", b.claim(6))
	b.failed("a write that is not registered", b.write(2, 7))
}
