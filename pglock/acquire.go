package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// The outcomes that the functions of the schema return.
const (
	done     = 1
	not      = 0  // refused, or there is no such hold
	busy     = 2  // another transaction keeps the row locked
	damaged  = -1 // the record
	usedUp   = -2 // the tokens
	noneEnds = -1 // in place of a TTL: no end
)

// outcome is the beginning of a row that they return.
type outcome struct {
	Outcome int
	Clock   *int64
	Ends    *int64 // nil: never
}

func (o *outcome) read(c *columns) {
	o.Outcome, o.Clock, o.Ends = c.int(), c.bigintOrNull(), c.bigintOrNull()
}

// left is the time until the end of the hold.
func (o outcome) left() time.Duration {
	if o.Ends == nil {
		return driver.Forever
	}
	return model.Time(*o.Ends).Until(model.Time(*o.Clock))
}

// failure is the error of an unusual outcome.
func (o outcome) failure(resource string) error {
	switch o.Outcome {
	case damaged:
		return fmt.Errorf("%w: the holds of %q are not in the form that Holdfast writes; the store does not change them", driver.ErrDamaged, resource)
	case usedUp:
		return fmt.Errorf("%w: the next fencing token of %q would pass 2^53", driver.ErrDamaged, resource)
	}
	return fmt.Errorf("PostgreSQL: outcome %d for resource %q", o.Outcome, resource)
}

// Acquire implements driver.Store. It is safe to repeat: it changes nothing where it
// finds the hold, and answers when that is as safe as a grant.
//
// While a transaction keeps the row locked, as one of AcquireTx does, an acquire
// waits for a moment and then fails with ErrBusy, its outcome unknown: nobody can
// tell what that transaction comes to, and it may be an earlier try of this very
// acquire, whose commit waits for a standby.
//
// If the server fails to do it, the place in the queue may be the reason: a refusal
// without one writes nothing. So Acquire asks again without writing the place.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	args, err := s.acquireArgs(ctx, q)
	if err != nil {
		return driver.Grant{}, err
	}
	more, err := placeArgs(q)
	if err != nil {
		return driver.Grant{}, err
	}
	g, err := s.acquire(ctx, q, append(args, more...))
	if failed(err) && !q.Place.IsZero() && ctx.Err() == nil {
		more[1] = int64(0)
		return s.acquire(ctx, q, append(args, more...))
	}
	return g, err
}

// acquire asks for as long as an answer is likely.
func (s *Store) acquire(ctx context.Context, q driver.AcquireRequest, args []any) (driver.Grant, error) {
	for try := 1; ; try++ {
		answer, err := ask[acquired](ctx, s, s.pool.acquire, s.do.acquire, args...)
		if err == nil {
			return s.grant(answer, q)
		}
		if try == patience || !errors.Is(err, ErrBusy) {
			return driver.Grant{}, err
		}
	}
}

// AcquireTx takes a lock as part of the transaction, which the caller commits or
// rolls back. Other clients see the hold after the commit, together with the other
// changes of the transaction. AcquireTx makes one attempt, in one round trip, and
// does not wait for a holder. A refusal, a *driver.HeldError or ErrBusy, leaves the
// transaction as it was; after any other error it can only be rolled back.
//
// Until the transaction ends, its row lock blocks the resource for all other clients.
// An AcquireTx of another transaction waits for half a second and returns ErrBusy. An
// Acquire waits a little longer, and its outcome is then unknown, so that a Client
// tries again. So transactions that take several resources should take them in one
// order, and be short. Only exclusive holds can be taken: beside a shared one the row
// lock would keep the others from renewing.
//
// A token counts after the commit. A transaction that is rolled back leaves no trace,
// and on a clock that stands still the next acquire may get the same token.
//
// The TTL counts from the call, not from the commit. After the commit the hold is
// like any other: Renew and Release take the HoldRef, and a holdfast.Client its lock
// ID (RenewID, ReleaseID). No keep-alive renews it: the TTL must cover the rest of
// the transaction and the work after it, or the hold is past its end at the commit.
// While the transaction lasts, the resource is blocked even then. If the hold ID is
// zero, AcquireTx makes one. If the outcome of the commit is unknown, Renew shows it:
// ErrBusy means that the server has not decided yet.
//
// In a transaction that is repeatable read or serializable, a resource that has
// changed since its first statement is a serialization failure (40001), held or not:
// repeat the transaction as a whole. If synchronous_commit is off, AcquireTx turns it
// on for the transaction. The transaction must be in the store's database, directly
// or through PgBouncer.
func (s *Store) AcquireTx(ctx context.Context, tx pgx.Tx, q driver.AcquireRequest) (driver.HoldRef, error) {
	if q.HoldID.IsZero() {
		q.HoldID = driver.NewHoldID()
	}
	if err := q.Validate(); err != nil {
		return driver.HoldRef{}, err
	}
	if q.Mode != driver.Exclusive {
		return driver.HoldRef{}, fmt.Errorf("%w: only an exclusive hold can be taken in a transaction", driver.ErrInvalid)
	}
	args, err := s.acquireArgs(ctx, q)
	if err != nil {
		return driver.HoldRef{}, err
	}
	var answer rows[acquired, *acquired]
	if err := pgxQuery(ctx, tx, s.do.acquireTx.sql, s.prepare(s.do.acquireTx), args, &answer); err != nil {
		return driver.HoldRef{}, s.wrap(foreign.Error(ctx, err))
	}
	g, err := s.grant(answer, q)
	if err != nil {
		return driver.HoldRef{}, err
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}, nil
}

// acquireArgs are the arguments of function acquire.
func (s *Store) acquireArgs(ctx context.Context, q driver.AcquireRequest) ([]any, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	hold, err := model.EncodeHolds([]model.Hold{{
		LockID: q.LockID, HoldID: q.HoldID, Mode: q.Mode, Limit: q.Limit, Details: q.Details,
		End: model.NoEnd, TakeoverDelay: q.TakeoverDelay, // the server writes the end
	}})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", driver.ErrInvalid, err)
	}
	hold = hold[1 : len(hold)-1] // the one in the array
	return []any{q.Resource, string(hold), millis(q.TTL)}, nil
}

// placeArgs are the arguments of function acquire about the queue: the place, and how long
// it is kept.
func placeArgs(q driver.AcquireRequest) (args []any, err error) {
	var place *string
	if !q.Place.IsZero() {
		text, err := model.EncodePlace(q)
		if err != nil {
			return nil, fmt.Errorf("%w: %v", driver.ErrInvalid, err)
		}
		place = &text
	}
	return []any{place, q.PlaceTTL().Milliseconds()}, nil
}

// millis is the duration for a function of the schema.
func millis(d time.Duration) int64 {
	if d == driver.Forever {
		return noneEnds
	}
	return d.Milliseconds()
}

// acquired is the row that function acquire returns.
type acquired struct {
	outcome
	Token   *int64
	Holds   *string // of a refusal, as all that follows
	Place   *int    // the request's position in the queue, or driver.NoPlace
	Waiters *int
	Ahead   *string // the first places ahead
}

func (a *acquired) read(c *columns) {
	a.outcome.read(c)
	a.Token, a.Holds = c.bigintOrNull(), c.textOrNull()
	a.Place, a.Waiters, a.Ahead = c.intOrNull(), c.intOrNull(), c.textOrNull()
}

// grant returns the result of the answer. For a refusal, package model computes which
// of the returned holds are in the way, and for how long, at the server's time.
func (s *Store) grant(answer []acquired, q driver.AcquireRequest) (driver.Grant, error) {
	if len(answer) != 1 {
		return driver.Grant{}, s.wrap(fmt.Errorf("%d answers to one request", len(answer)))
	}
	a := answer[0]
	switch a.Outcome {
	case done:
		return driver.Grant{Token: uint64(*a.Token), Left: a.left()}, nil
	case busy:
		return driver.Grant{}, s.wrap(fmt.Errorf("resource %q: %w", q.Resource, ErrBusy))
	case not:
		r, err := record(q.Resource, *a.Holds)
		if err != nil {
			return driver.Grant{}, err
		}
		if r.Places, err = model.DecodePlaces([]byte(*a.Ahead)); err != nil {
			return driver.Grant{}, fmt.Errorf("resource %q: %w", q.Resource, err)
		}
		q.Place = driver.PlaceID{} // those places are all ahead
		held := model.Refused(r, model.Time(*a.Clock), q)
		held.Position, held.Waiters = *a.Place, *a.Waiters
		return driver.Grant{}, held
	}
	return driver.Grant{}, a.failure(q.Resource)
}

// record has the holds of a row, for statuses and refusals.
func record(resource, holds string) (model.Record, error) {
	hs, err := model.DecodeHolds([]byte(holds))
	if err != nil {
		return model.Record{}, fmt.Errorf("resource %q: %w", resource, err)
	}
	return model.Record{Resource: resource, Holds: hs}, nil
}
