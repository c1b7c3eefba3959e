package holdfast

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// releasePatience is how long releases without an answer are repeated.
const releasePatience = 5 * time.Second

// errNoTime: others that were released before took all of it.
var errNoTime = fmt.Errorf("no time left of the %v", releasePatience)

// releaseAll sends the releases, and again those without an answer, for so long at
// most. Of ctx only the values count. The result has an error, or nil, for each.
//
// A release may be repeated: it names one acquisition, and that is not there any
// more. Only one without a hold ID could meet a successor, and is sent once.
func (c *Client) releaseAll(ctx context.Context, qs []driver.ReleaseRequest, patience time.Duration) []error {
	errs := make([]error, len(qs))
	c.release(ctx, qs, errs, new(attempt), patience, never)
	return errs
}

// releaseOne is releaseAll of one, with what that needs in one allocation. It goes
// on for releasePatience and not past the deadline, at which the hold ends anyway.
func (c *Client) releaseOne(ctx context.Context, q driver.ReleaseRequest, deadline time.Duration) error {
	r := &struct {
		qs   [1]driver.ReleaseRequest
		errs [1]error
		call attempt
	}{qs: [1]driver.ReleaseRequest{q}}
	c.release(ctx, r.qs[:], r.errs[:], &r.call, releasePatience, deadline)
	return r.errs[0]
}

// release puts the errors into errs; call is that of the first request.
func (c *Client) release(ctx context.Context, qs []driver.ReleaseRequest, errs []error, call *attempt, patience, deadline time.Duration) {
	began, left, size := c.elapsed(), patience, batchSize
	rest := qs
	var at []int // index in qs of each of rest; nil: the same
	index := func(i int) int {
		if at == nil {
			return i
		}
		return at[i]
	}
	for pauses := retries(); ; {
		var again []int
		for lo := 0; lo < len(rest); {
			part := rest[lo:min(lo+size, len(rest))]
			if call == nil {
				call = new(attempt)
				left = patience - (c.elapsed() - began)
			}
			timeout := left
			if len(part) > smallBatch || lo+len(part) < len(rest) {
				timeout = left / 2 // one that cannot be released leaves time for others
			}
			var results []driver.ReleaseResult
			err := errNoTime
			if timeout > 0 {
				*call = attempt{parent: ctx, client: c, detached: true, timeout: timeout, by: deadline}
				results, err = c.store.Release(call, part)
				err = call.end(err)
			}
			call = nil
			if err != nil {
				size = fewer(len(part))
			}
			for i := range part {
				n := index(lo + i)
				errs[n] = outcome(results, err, i, releaseErr)
				if errs[n] != nil && !permanent(errs[n]) && !errors.Is(errs[n], errRetaken) && !qs[n].HoldID.IsZero() {
					again = append(again, n)
				}
			}
			lo += len(part)
		}
		if len(again) == 0 {
			return
		}
		pause := pauses.pause()
		if c.elapsed()-began+pause >= patience || c.clock()+pause >= deadline {
			return
		}
		time.Sleep(pause)
		at = again
		rest = make([]driver.ReleaseRequest, len(again))
		for i, n := range again {
			rest[i] = qs[n]
		}
	}
}

// releaseHeld releases what is held as the Client closes, takes about that long at
// most, and returns the first error.
func (c *Client) releaseHeld(held []*Hold, patience time.Duration) (first error) {
	if len(held) == 0 {
		return nil
	}
	qs := make([]driver.ReleaseRequest, len(held))
	for i, h := range held {
		qs[i].HoldRef = h.ref
	}
	for i, err := range c.releaseAll(context.Background(), qs, patience) {
		c.released(held[i], err)
		if err != nil && first == nil {
			first = wrap("release", held[i].ref.Resource, err)
		}
	}
	return first
}

// newestFirst sorts holds by when they were granted, the last one first.
func newestFirst(ss []Status) {
	slices.SortFunc(ss, func(a, b Status) int { return b.Created.Compare(a.Created) })
}
