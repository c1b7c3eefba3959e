package cleanup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// Patience is how long releases without an answer are repeated.
const Patience = 5 * time.Second

// errNoTime means that earlier releases took all the time.
var errNoTime = fmt.Errorf("no time left of the %v", Patience)

// ErrRetaken means that the hold was released but its lock ID still holds the resource,
// because another program has replaced the hold. It matches storecall.ErrForced.
var ErrRetaken error = retakenError{}

type retakenError struct{}

func (retakenError) Error() string {
	return "another program with the same lock ID has renewed it, or taken it again, and holds it still"
}

func (retakenError) Is(target error) bool { return target == storecall.ErrForced }

// batchSize is the largest number of holds in a request. After requests without an answer the
// batches get smaller, down to one: one hold may have delayed the others. Batches of more
// than smallBatch leave half of the time to others.
const (
	batchSize  = 1000
	smallBatch = 16
)

// release is the release of one hold or place.
//
// A release may be repeated: it names one acquisition, which does not come back. Only a
// release without a hold ID could affect the next holder, so it is sent once.
type release struct {
	q      driver.ReleaseRequest
	share  int     // the largest size of its batch: smaller after each failure
	found  bool    // the store had the hold
	orphan *orphan // the orphan that it cleans up, or nil
	err    error   // of the last request
}

// answered reports whether the store has answered. If another program has retaken the lock,
// the new hold has another ID, and this hold is gone.
func (r *release) answered() bool { return r.err == nil || errors.Is(r.err, ErrRetaken) }

// final reports whether the release must not be repeated, because a repeat would be useless
// or harmful.
func final(q driver.ReleaseRequest, err error) bool {
	return err == nil || errors.Is(err, ErrRetaken) || storecall.Permanent(err) || q.HoldID.IsZero() && q.Place.IsZero()
}

// nextBatch returns the releases of the next batch, first the ones that have not failed. The
// releases of a failed batch get smaller batches each time. So a release that makes batches
// fail, or takes all their time, is soon alone.
func nextBatch(rs []*release) []*release {
	slices.SortStableFunc(rs, func(a, b *release) int { return cmp.Compare(b.share, a.share) })
	for n, r := range rs {
		if n >= r.share {
			return rs[:n]
		}
	}
	return rs
}

func requests(rs []*release) []driver.ReleaseRequest {
	qs := make([]driver.ReleaseRequest, len(rs))
	for i, r := range rs {
		qs[i] = r.q
	}
	return qs
}

func errOf(r driver.ReleaseResult) error {
	if r.Err == nil && r.Remains {
		return ErrRetaken
	}
	return r.Err
}

// note records the outcomes of a batch and reports whether any release failed.
func note(batch []*release, results []driver.ReleaseResult, err error) (failed bool) {
	for i, r := range batch {
		r.err = storecall.Outcome(results, err, i, errOf)
		if r.found = r.answered() && results[i].Found; r.answered() {
			r.share = batchSize
		} else {
			r.share, failed = max(len(batch)/8, 1), true
		}
	}
	return failed
}

// ReleaseAll sends the releases, repeats the unanswered ones for the given patience, and
// returns their outcomes. It uses only the values of ctx. If a call ends long after its
// timeout, the process was stopped, and the store may not be silent: once, that time does not
// count.
func (c *Cleaner) ReleaseAll(ctx context.Context, qs []driver.ReleaseRequest, patience time.Duration) []error {
	rs := make([]*release, len(qs))
	for i, q := range qs {
		rs[i] = &release{q: q, share: batchSize, err: errNoTime}
	}
	pending, pauses, pause, stopped := slices.Clone(rs), storecall.Retries(), time.Duration(0), false
	for by := c.Scope.Elapsed() + patience; ; {
		now := c.Scope.Elapsed() + pause
		if len(pending) == 0 || by <= now {
			break
		}
		time.Sleep(pause)
		batch := nextBatch(pending)
		timeout := by - now
		if len(batch) > smallBatch || len(batch) < len(pending) {
			timeout /= 2 // a release that cannot succeed leaves time for others
		}
		call := &storecall.Context{Parent: ctx, Scope: c.Scope, Detached: true, Timeout: timeout}
		results, err := c.Send(call, requests(batch))
		if took := c.Scope.Elapsed() - now; took >= timeout+storecall.LastChance && !stopped {
			stopped = true
			by += took
		}
		if pause = 0; note(batch, results, call.End(err)) {
			pause = pauses.Next()
		}
		// Failed releases come after the others, even after others in a batch of one.
		pending = slices.Concat(pending[len(batch):], slices.DeleteFunc(batch, func(r *release) bool { return final(r.q, r.err) }))
	}
	errs := make([]error, len(rs))
	for i, r := range rs {
		errs[i] = r.err
	}
	return errs
}

// Release is like ReleaseAll for one release and with Patience, and allocates once. It also
// stops at the deadline, when the hold expires.
func (c *Cleaner) Release(ctx context.Context, q driver.ReleaseRequest, deadline time.Duration) error {
	first := &struct {
		qs   [1]driver.ReleaseRequest
		call storecall.Context
	}{qs: [1]driver.ReleaseRequest{q}}
	s, call, left, stopped := c.Scope, &first.call, Patience, false
	began := s.Elapsed()
	for pauses := storecall.Retries(); ; {
		*call = storecall.Context{Parent: ctx, Scope: s, Detached: true, Timeout: left, By: deadline}
		results, err := c.Send(call, first.qs[:])
		if err = storecall.Outcome(results, call.End(err), 0, errOf); final(q, err) {
			return err
		}
		pause := pauses.Next()
		if late := s.Elapsed() - began - Patience; late >= storecall.LastChance && !stopped {
			stopped, began = true, s.Elapsed()
		}
		if left = Patience - (s.Elapsed() - began) - pause; left <= 0 || s.Clock()+pause >= deadline {
			return err
		}
		time.Sleep(pause)
		call = new(storecall.Context) // the store may still use the previous one
	}
}
