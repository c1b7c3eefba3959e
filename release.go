package holdfast

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// releasePatience is how long releases without an answer are repeated.
const releasePatience = 5 * time.Second

// errNoTime: earlier releases took all the time.
var errNoTime = fmt.Errorf("no time left of the %v", releasePatience)

// release is the release of one hold.
//
// A release may be repeated: it names one acquisition, which does not come back. Only
// a release without a hold ID could affect the next holder, so it is sent once.
type release struct {
	q     driver.ReleaseRequest
	share int           // at most so many travel in its batch: fewer after each failure
	due   time.Duration // when a clean-up sends it next, on the Client's clock
	by    time.Duration // when to give up, by Client.elapsed; not used in a clean-up
	found bool          // the store had the hold
	err   error         // of the last request
}

// answered reports whether the store has answered. If another program has retaken
// the lock, it has another hold ID, and this hold is gone.
func (r *release) answered() bool { return r.err == nil || errors.Is(r.err, errRetaken) }

// final reports whether the release must not be sent again, because that would be
// useless or could do harm.
func final(q driver.ReleaseRequest, err error) bool {
	return err == nil || errors.Is(err, errRetaken) || permanent(err) || q.HoldID.IsZero() && q.Place.IsZero()
}

// nextBatch returns the releases that travel together next: first those that have not
// failed. Releases of a batch that failed travel in smaller batches each time. So a
// release that makes batches fail, or takes all their time, is soon alone.
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

// note records the outcomes of a batch and reports whether any release failed.
func note(batch []*release, results []driver.ReleaseResult, err error) (failed bool) {
	for i, r := range batch {
		r.err = outcome(results, err, i, releaseErr)
		if r.found = r.answered() && results[i].Found; r.answered() {
			r.share = batchSize
		} else {
			r.share, failed = max(len(batch)/8, 1), true
		}
	}
	return failed
}

// newReleases returns releases of the holds that are given up after that long.
func (c *Client) newReleases(refs []driver.HoldRef, patience time.Duration) []*release {
	by := c.elapsed() + patience
	rs := make([]*release, len(refs))
	for i, ref := range refs {
		rs[i] = &release{q: driver.ReleaseRequest{HoldRef: ref}, share: batchSize, by: by}
	}
	return rs
}

// releaseAll sends the releases, and repeats those without an answer until they are
// given up. It uses only the values of ctx. A call that ended long after its time says that
// the process was stopped, not that the store is silent: once, that time does not count.
func (c *Client) releaseAll(ctx context.Context, rs []*release) {
	pending, pauses, pause, stopped := slices.Clone(rs), retries(), time.Duration(0), false
	for _, r := range rs {
		r.err = errNoTime
	}
	for {
		now := c.elapsed() + pause
		pending = slices.DeleteFunc(pending, func(r *release) bool { return r.by <= now })
		if len(pending) == 0 {
			return
		}
		time.Sleep(pause)
		batch := nextBatch(pending)
		timeout := slices.MaxFunc(batch, func(a, b *release) int { return cmp.Compare(a.by, b.by) }).by - now
		if len(batch) > smallBatch || len(batch) < len(pending) {
			timeout /= 2 // one that cannot be released leaves time for others
		}
		call := &attempt{parent: ctx, client: c, detached: true, timeout: timeout}
		results, err := c.store.Release(call, requests(batch))
		if took := c.elapsed() - now; took >= timeout+lastChance && !stopped {
			stopped = true
			for _, r := range pending {
				r.by += took
			}
		}
		if pause = 0; note(batch, results, call.end(err)) {
			pause = pauses.Next()
		}
		// Releases that have failed come after the others, even those that travel
		// alone as well.
		pending = slices.Concat(pending[len(batch):], slices.DeleteFunc(batch, func(r *release) bool { return final(r.q, r.err) }))
	}
}

// releaseOne is releaseAll for one release, and makes one allocation. It also stops
// at the deadline, when the hold ends anyway.
func (c *Client) releaseOne(ctx context.Context, q driver.ReleaseRequest, deadline time.Duration) error {
	first := &struct {
		qs   [1]driver.ReleaseRequest
		call attempt
	}{qs: [1]driver.ReleaseRequest{q}}
	call, began, left, stopped := &first.call, c.elapsed(), releasePatience, false
	for pauses := retries(); ; {
		*call = attempt{parent: ctx, client: c, detached: true, timeout: left, by: deadline}
		results, err := c.store.Release(call, first.qs[:])
		if err = outcome(results, call.end(err), 0, releaseErr); final(q, err) {
			return err
		}
		pause := pauses.Next()
		if late := c.elapsed() - began - releasePatience; late >= lastChance && !stopped {
			stopped, began = true, c.elapsed()
		}
		if left = releasePatience - (c.elapsed() - began) - pause; left <= 0 || c.clock()+pause >= deadline {
			return err
		}
		time.Sleep(pause)
		call = new(attempt) // the store may still look at the one before
	}
}

// releaseWithin is releaseHeld within the time that is left to Close, even if the store
// ignores the context of a call: that call then goes on.
func (c *Client) releaseWithin(held []*Hold, left time.Duration) error {
	result := make(chan error, 1)
	go func() { result <- c.releaseHeld(held, max(left-closeMargin, 0)) }()
	select {
	case err := <-result:
		return err
	case <-time.After(max(left, closeMargin)):
		return errStillRunning
	}
}

// closeMargin is what a call has to return after its context has ended.
const closeMargin = 100 * time.Millisecond

// releaseHeld releases the holds as the Client closes, takes about that long at
// most, and returns the first error.
func (c *Client) releaseHeld(held []*Hold, patience time.Duration) (first error) {
	refs := make([]driver.HoldRef, len(held))
	for i, h := range held {
		refs[i] = h.ref
	}
	rs, began := c.newReleases(refs, patience), c.clock()
	c.releaseAll(context.Background(), rs)
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range rs {
		c.released(held[i], began, r.err)
		if r.err != nil && first == nil {
			first = wrap("release", held[i].ref.Resource, r.err)
		}
	}
	return first
}
