package pglock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// What the functions of the schema answer.
const (
	done     = 1
	not      = 0
	busy     = 2 // another transaction keeps the row locked
	damaged  = -1
	usedUp   = -2
	noneEnds = -1 // in place of a TTL: no end
)

// Acquire implements driver.Store. It is safe to repeat, for it changes nothing
// where it finds the hold, and answers when that is as safe as a grant.
//
// While a transaction keeps the row locked, as one of AcquireTx does, an acquire
// waits for a moment and then fails, its outcome unknown: nobody can tell what that
// transaction comes to, and it may be an earlier try of this very acquire, whose
// commit waits for a standby.
func (s *Store) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if err := s.ready(ctx); err != nil {
		return driver.Grant{}, err
	}
	args, err := acquireArgs(q)
	if err != nil {
		return driver.Grant{}, err
	}
	var a answer
	for range patience {
		if err := s.ask(ctx, s.fromPool, s.do.acquire, args, a.scan); err != nil {
			return driver.Grant{}, err
		}
		if a.outcome != busy {
			break
		}
	}
	return s.judge(a, q)
}

// AcquireTx takes a lock as part of the transaction, which is the caller's to
// commit or to roll back: the hold is there for others once it is committed, with
// all else that the transaction did, and was never there if it is not. It makes one
// attempt, in one round trip, and does not wait for a holder. A refusal, a
// *driver.HeldError or ErrBusy, leaves the transaction as it was; after any other
// error it can only be rolled back.
//
// Until the transaction ends, its row lock keeps all others from the resource.
// AcquireTx waits for that for half a second, and answers ErrBusy then; Acquire
// waits a little longer, and its outcome is unknown then, so that a Client asks
// again. So transactions that take several resources should take them in one order,
// and be short. Only exclusive holds can be taken: beside a shared one the row lock
// would keep the others from renewing.
//
// A token counts once the transaction is committed: one that is rolled back leaves
// no trace, and on a clock that stands still the next may get the same.
//
// The TTL counts from the call, not from the commit. What is still held after the
// commit lives as any hold does: Renew and Release take the HoldRef, and a
// holdfast.Client its lock ID (RenewID, ReleaseID). Nobody keeps it alive: the TTL
// must cover the rest of the transaction and what follows, or the hold is past its
// end when it is committed. While the transaction lasts it excludes others even so.
// A hold ID that is zero is made up. If it is not known whether the commit took
// place, List or Renew tells.
//
// With a transaction that is repeatable read or serializable, a resource that has
// changed since its first statement is a serialization failure (40001), whoever has
// it: the transaction is to be repeated as a whole. synchronous_commit = off is turned on for the transaction. It must be on
// the database of the store, directly or through PgBouncer.
func (s *Store) AcquireTx(ctx context.Context, tx pgx.Tx, q driver.AcquireRequest) (driver.HoldRef, error) {
	if err := s.ready(ctx); err != nil {
		return driver.HoldRef{}, err
	}
	if q.HoldID.IsZero() {
		q.HoldID = driver.NewHoldID()
	}
	if err := q.Validate(); err != nil {
		return driver.HoldRef{}, err
	}
	if q.Mode != driver.Exclusive {
		return driver.HoldRef{}, fmt.Errorf("%w: only an exclusive hold can be taken in a transaction", driver.ErrInvalid)
	}
	args, err := acquireArgs(q)
	if err != nil {
		return driver.HoldRef{}, err
	}
	var a answer
	// Not prepared: after an error the transaction could not go on with another try.
	if err := query(ctx, tx, pgx.QueryExecModeExec, s.do.acquireTx, args, a.scan); err != nil {
		return driver.HoldRef{}, s.wrap(err)
	}
	g, err := s.judge(a, q)
	if err != nil {
		return driver.HoldRef{}, err
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}, nil
}

// acquireArgs are the arguments of function acquire.
func acquireArgs(q driver.AcquireRequest) ([]any, error) {
	hold, err := model.EncodeHolds([]model.Hold{{
		LockID: q.LockID, HoldID: q.HoldID, Mode: q.Mode, Limit: q.HeldLimit(), Details: q.Details,
		End: model.NoEnd, TakeoverDelay: q.TakeoverDelay, // the server writes the end
	}})
	if err != nil {
		return nil, fmt.Errorf("%w: %v", driver.ErrInvalid, err)
	}
	hold = hold[1 : len(hold)-1] // the one in the array
	return []any{q.Resource, string(hold), int64(q.Limit), millis(q.TTL)}, nil
}

// millis is the duration for a function of the schema.
func millis(d time.Duration) int64 {
	if d == driver.Forever {
		return noneEnds
	}
	return d.Milliseconds()
}

// answer is the row that function acquire returns.
type answer struct {
	outcome               int32
	clock, token, touched *int64
	ends                  *int64 // nil: never
	holds                 *string
}

func (a *answer) scan(rows pgx.Rows) error {
	return rows.Scan(&a.outcome, &a.clock, &a.token, &a.touched, &a.ends, &a.holds)
}

// judge tells what the answer means. Who is in the way, and for how long, package
// model says, for the record that the server refused by, at the server's time.
func (s *Store) judge(a answer, q driver.AcquireRequest) (driver.Grant, error) {
	switch a.outcome {
	case done:
		g := driver.Grant{Token: uint64(*a.token), Left: driver.Forever}
		if a.ends != nil {
			g.Left = time.Duration(*a.ends-*a.clock) * time.Microsecond
		}
		return g, nil
	case not:
		r, err := record(q.Resource, *a.token, *a.touched, *a.holds)
		if err != nil {
			return driver.Grant{}, err
		}
		_, _, _, err = model.Acquire(r, model.Time(*a.clock), q)
		var held *driver.HeldError
		if !errors.As(err, &held) {
			return driver.Grant{}, s.wrap(fmt.Errorf("%q was refused, but nothing is in the way", q.Resource))
		}
		return driver.Grant{}, held
	case busy:
		return driver.Grant{}, s.wrap(fmt.Errorf("resource %q: %w", q.Resource, ErrBusy))
	case damaged:
		return driver.Grant{}, damagedRecord(q.Resource)
	case usedUp:
		return driver.Grant{}, fmt.Errorf("%w: the next fencing token of %q would pass 2^53", driver.ErrDamaged, q.Resource)
	}
	return driver.Grant{}, s.wrap(fmt.Errorf("outcome %d of an acquire", a.outcome))
}

func damagedRecord(resource string) error {
	return fmt.Errorf("%w: the holds of %q are not what Holdfast writes; they are left as they are", driver.ErrDamaged, resource)
}

// record is what a row has.
func record(resource string, token, touched int64, holds string) (model.Record, error) {
	hs, err := model.DecodeHolds([]byte(holds))
	if err != nil {
		return model.Record{}, fmt.Errorf("resource %q: %w", resource, err)
	}
	return model.Record{Resource: resource, Token: uint64(token), Touched: model.Time(touched), Holds: hs}, nil
}
