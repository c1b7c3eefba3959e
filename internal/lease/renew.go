package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// batchSize is the largest number of holds in a request. After requests without an answer the
// batches get smaller, down to smallBatch. The holds of unanswered requests then travel apart
// from the others, in batches down to one: one hold may have delayed the others. If more than
// mostBatches such requests were due at once, each carries up to smallBatch holds.
const (
	batchSize   = 1000
	smallBatch  = 16
	mostBatches = 64
)

// maxSleep is the longest time that the timer sleeps: timers do not count the time that a
// machine sleeps, but the clock does. A timer that is late by lateTimer is set anew.
const (
	maxSleep  = time.Second
	lateTimer = 10 * time.Millisecond
)

// foreverCheck is how often a hold without an end is renewed, to check that the store still
// has it.
const foreverCheck = 30 * time.Second

// leaseOf returns the TTL that determines how often a hold is renewed.
func leaseOf(ttl time.Duration) time.Duration {
	if ttl == driver.Forever {
		return 3 * foreverCheck
	}
	return ttl
}

// arm makes the timer fire when the first hold is due, or earlier. ls.mu is held.
func (ls *Leases) arm(now time.Duration) {
	if ls.due == never || ls.closed && len(ls.live) == 0 {
		return
	}
	at := min(ls.due, now+maxSleep)
	if ls.timerAt != 0 && ls.timerAt <= at && ls.timerAt > now-lateTimer {
		return // tick arms it again
	}
	ls.timerAt = at
	switch d := at - now; {
	case d <= 0:
		// Not by a timer: with -race, Go 1.26 now and then crashes in runtime.(*timer).modify
		// when two goroutines of a synctest bubble set timers that are due at once.
		go ls.tick()
	case ls.timer == nil:
		ls.timer = time.AfterFunc(d, ls.tick)
	default:
		ls.timer.Reset(d)
	}
}

// armFor makes the timer fire when the hold is due. ls.mu is held.
func (ls *Leases) armFor(l *Lease, now time.Duration) {
	ls.due = min(ls.due, l.due())
	ls.arm(now)
}

// tick handles the holds that are due, and arms the timer.
func (ls *Leases) tick() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.timerAt = 0
	now := ls.Scope.Clock()
	ls.keepAlive(now)
	if len(ls.live) > 0 && !ls.lossWatch && !ls.closed {
		ls.lossWatch = true
		ls.Scope.Go(ls.watchLoss)
	}
	ls.arm(now)
}

// keepAlive loses the holds that have passed their deadlines and sends the due renewals.
// ls.mu is held.
func (ls *Leases) keepAlive(now time.Duration) {
	if now < ls.due {
		return
	}
	expired, due, next := ls.collect(now)
	ls.due = next
	for _, l := range expired {
		ls.lose(l, nil)
	}
	again := 0 // the index of the first hold whose last renewal had no answer
	for again < len(due) && due[again].failure == nil {
		again++
	}
	if !ls.failing && len(due) > ls.batch {
		ls.batch = min(ls.batch+max(ls.batch/4, 1), batchSize)
	}
	ls.send(due[:again], max(ls.batch, smallBatch), now)
	ls.send(due[again:], max(ls.batch, min((len(due)-again)/mostBatches, smallBatch)), now)
}

// collect returns the holds that have passed their deadlines, the holds to be renewed, which
// it marks as in flight, and when the next hold is due. If any renewal is due, it includes
// holds that fall due within a twelfth of their TTL. Holds whose last renewal had no answer
// come last, and otherwise short timeouts come first. ls.mu is held.
func (ls *Leases) collect(now time.Duration) (expired, due []*Lease, next time.Duration) {
	renew := false
	ls.failing = false
	for _, l := range ls.live {
		ls.failing = ls.failing || l.failure != nil
		if l.deadline <= now {
			expired = append(expired, l)
		} else if l.due() <= now {
			renew = true
		}
	}
	next = never
	for _, l := range ls.live {
		if l.deadline <= now {
			continue
		}
		if renew && l.Keep && !l.inFlight && l.renewAt-leaseOf(l.ttl)/12 <= now {
			due = append(due, l)
			l.inFlight = true
		}
		next = min(next, l.due())
	}
	slices.SortFunc(due, func(a, b *Lease) int {
		if failed := a.failure != nil; failed != (b.failure != nil) {
			if failed {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.renewTimeout(now), b.renewTimeout(now))
	})
	return expired, due, next
}

// renewTimeout returns the timeout of a renewal: at most half of the time until the deadline,
// so that a lost request can be repeated in time. ls.mu is held.
func (l *Lease) renewTimeout(now time.Duration) time.Duration {
	return min(storecall.Timeout(leaseOf(l.ttl)), (l.deadline-now)/2+1)
}

// due returns when the hold is to be renewed or declared lost. ls.mu is held.
func (l *Lease) due() time.Duration {
	if l.Keep && !l.inFlight {
		return min(l.renewAt, l.deadline)
	}
	return l.deadline
}

// send sends renewals in batches of at most size. The hold with the shortest timeout limits
// its batch. So it comes first, and takes only holds with it that get at least half of their
// own timeout: short locks that fail one after another must not take away the time to renew a
// long one. ls.mu is held.
func (ls *Leases) send(due []*Lease, size int, now time.Duration) {
	for len(due) > 0 {
		timeout := due[0].renewTimeout(now)
		n := 1
		for n < min(size, len(due)) && due[n].renewTimeout(now) <= 2*timeout {
			n++
		}
		batch := due[:n]
		due = due[n:]
		qs := make([]driver.RenewRequest, n)
		for i, l := range batch {
			qs[i] = driver.RenewRequest{HoldRef: l.Ref, TTL: l.ttl}
		}
		ls.Scope.Go(func() { ls.renew(batch, qs, now, timeout) })
	}
}

// renew sends one batch.
func (ls *Leases) renew(batch []*Lease, qs []driver.RenewRequest, sent, timeout time.Duration) {
	call := &storecall.Context{Parent: context.Background(), Scope: ls.Scope, Detached: true, Timeout: timeout}
	ctx, cancel := context.WithCancel(call)
	stop := context.AfterFunc(ls.renewing, cancel)
	results, err := ls.Store.Renew(ctx, qs)
	stop()
	cancel()
	err = call.End(err)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i, l := range batch {
		// The hold notes the outcome; no caller waits for it.
		_ = ls.answered(l, results, err, i, qs[i].TTL, sent, true)
	}
	if err != nil && len(batch) > 1 {
		// The store may need time for each hold, or one hold may delay the others. Each
		// attempt has half the time of the previous one, so half as many holds would not be
		// enough.
		ls.batch = min(ls.batch, max(len(batch)/8, 1))
	}
}

// Renew sends one renewal for the holder, unless the hold has ended. A ttl of 0 means the
// present one. After an answer, later renewals use the same ttl.
func (l *Lease) Renew(ctx context.Context, ttl time.Duration) (sent bool, err error) {
	ls := l.ls
	ls.mu.Lock()
	if ttl == 0 {
		ttl = l.ttl
	}
	over := l.over()
	ls.mu.Unlock()
	if over != nil {
		return false, over
	}
	err = ls.Renew(ctx, []driver.HoldRef{l.Ref}, ttl)[0].Err
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if err == nil {
		l.ttl = ttl
	}
	return true, cmp.Or(l.over(), err)
}

// over returns why the hold is not live, or nil. ls.mu is held.
func (l *Lease) over() error {
	if l.state == Live {
		return nil
	}
	return cmp.Or(l.loss, ErrReleased)
}

// Renew renews live or other holds with one request and returns a result for each.
func (ls *Leases) Renew(ctx context.Context, refs []driver.HoldRef, ttl time.Duration) []driver.RenewResult {
	qs := make([]driver.RenewRequest, len(refs))
	ls.mu.Lock()
	for i, ref := range refs {
		qs[i] = driver.RenewRequest{HoldRef: ref, TTL: ttl}
		if l := ls.find(ref); l != nil && ttl == driver.Forever {
			l.endless = true // even if the answer never comes
		}
	}
	ls.mu.Unlock()
	sent := ls.Scope.Clock()
	call := &storecall.Context{Parent: ctx, Scope: ls.Scope, Timeout: storecall.Timeout(ttl)}
	answers, err := ls.Store.Renew(call, qs)
	err = call.End(err)
	results := slices.Grow(answers, max(len(refs)-len(answers), 0))[:len(refs)]
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for i, ref := range refs {
		if l := ls.find(ref); l != nil {
			results[i].Err = ls.answered(l, answers, err, i, ttl, sent, false)
		} else {
			results[i].Err = storecall.Outcome(answers, err, i, renewErr)
		}
	}
	return results
}

func renewErr(r driver.RenewResult) error { return r.Err }

// answered notes the answer to a renewal, the i-th of a batch, and returns the error for the
// holder. kept says that the renewal was sent by keepAlive. ls.mu is held.
func (ls *Leases) answered(l *Lease, results []driver.RenewResult, err error, i int, ttl, sent time.Duration, kept bool) error {
	if err = storecall.Outcome(results, err, i, renewErr); err == nil {
		l.noteWaiters(results[i].Waiters)
	}
	if over := l.over(); over != nil {
		return over
	}
	now := ls.Scope.Clock()
	var cause error
	switch {
	case now >= l.deadline:
		// Final, even if the store has renewed the hold: Left has returned 0, or could have.
		cause = l.expiry()
	case err == nil:
		l.deadline = max(l.deadline, ls.Deadline(sent, ttl))
		l.renewAt = sent + leaseOf(ttl)/3
		if sent < ls.doubtedAt {
			l.renewAt = now // the store may have lost it since
		}
		l.failure, l.pauses = nil, backoff.Backoff{}
	case errors.Is(err, driver.ErrLost):
		cause = ErrForced
	default:
		l.failed(err, now, kept)
	}
	if kept {
		l.inFlight = false
	}
	told := err
	if cause != nil {
		told = ls.Loss(l, cause)
	}
	if l.ended == nil { // otherwise Ended was called already
		ls.Renewed(l, sent, now, told)
	}
	if cause != nil {
		ls.lose(l, cause)
		return l.loss
	}
	ls.armFor(l, now)
	return err
}

// failed notes a renewal without an answer and schedules the next one. ls.mu is held.
func (l *Lease) failed(err error, now time.Duration, kept bool) {
	lease := leaseOf(l.ttl)
	if l.failure == nil {
		l.pauses = backoff.New(lease/48, lease/12)
	}
	l.failure = err
	// Near the deadline the pauses get shorter, to allow more attempts.
	at := now + min(l.pauses.Next(), max((l.deadline-now)/4, lease/48))
	if !kept {
		// The caller's own renewals may fail again and again for their own reasons, such as a
		// short ctx. They may advance the Client's next renewal, but must not delay it.
		at = min(at, l.renewAt)
	}
	l.renewAt = at
}

// watchLoss renews all holds each time that the store may have lost them, so that their
// holders learn of the loss at once and not at the next renewal. The timer starts it, within
// a second after a grant, if there is a hold: a program that locks for a moment needs no
// connection for it.
func (ls *Leases) watchLoss() {
	store, ok := ls.Store.(driver.LossWatcher)
	if !ok {
		return
	}
	ctx, cancel := context.WithCancel(ls.Scope.Life)
	defer cancel()
	signal, err := store.WatchLoss(ctx)
	for open := err == nil; open; {
		ls.renewAll()
		select {
		case _, open = <-signal:
		case <-ctx.Done():
			open = false
		}
	}
	if err != nil && !errors.Is(err, driver.ErrUnsupported) {
		ls.mu.Lock()
		ls.lossWatch = false // the timer starts it again
		ls.mu.Unlock()
	}
}

// renewAll makes all renewals due. Renewals that are under way are repeated after their
// answers.
func (ls *Leases) renewAll() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := ls.Scope.Clock()
	ls.doubtedAt = now
	for _, l := range ls.live {
		if l.Keep && !l.inFlight {
			l.renewAt = now
			ls.armFor(l, now)
		}
	}
}
