package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// acquisition is an acquire under way. Every attempt of it has the same hold ID, here and
// at other servers: whichever of them is applied, there is one hold.
type acquisition struct {
	x       *exchange
	q       driver.AcquireRequest // TTL: what is asked for, which may be driver.Forever
	ours    bool                  // the server made the hold ID, and cleans up
	unknown int                   // attempts that were applied, or may be, of which the caller is told nothing
	placed  bool                  // the wait has asked for a place
	audited bool                  // the audit knows what it came to
}

// ownPlace returns the ID of the place that the acquisition has in the store while it waits.
func (a *acquisition) ownPlace() driver.PlaceID { return a.x.ownPlace(driver.PlaceID(a.q.HoldID)) }

// firstLease is the TTL with which a hold without an end is acquired. If the answer gets
// lost and nobody asks again, the hold ends by it.
const firstLease = 30 * time.Second

// decided is a grant, and when the attempt was sent that decided what is left of it.
type decided struct {
	driver.Grant
	sent time.Time
}

// once makes one attempt, which is over by then. Its error is errNotSent, a named error of
// package driver, which is definite, or any other: then it counts in a.unknown.
//
// A reply that is lost, or an attempt that arrives late, leaves a hold with this hold ID.
// The next attempt finds it, here or at another server; otherwise it ends by its TTL, or by
// the cleaner if the hold ID is the server's.
func (a *acquisition) once(by time.Time) (decided, error) {
	s, q := a.x.s, a.q
	ctx, cancel := context.WithDeadline(a.x.r.Context(), by)
	defer cancel()
	sent := time.Now()
	if ctx.Err() != nil || !sent.Before(by) {
		return decided{}, errNotSent
	}
	if q.TTL == driver.Forever {
		q.TTL = firstLease
	}
	g, err := s.store.Acquire(ctx, q)
	s.opts.Observer.storeCall(a.x.r.Context(), "acquire", sent, err)
	if err == nil && a.q.TTL == driver.Forever && g.Left != driver.Forever {
		g.Left, err = a.makeEndless(ctx, g.Token)
	}
	if err != nil && !definite(err) {
		a.unknown++
		a.x.logError("acquire", err)
	}
	return decided{g, sent}, err
}

// makeEndless renews the hold that was just granted to one without an end. Whatever becomes
// of that, the caller may ask again with the same hold ID. If it may not, the hold ends by
// its first TTL.
func (a *acquisition) makeEndless(ctx context.Context, token uint64) (time.Duration, error) {
	if err := a.allowed(); err != nil {
		return driver.Unknown, fmt.Errorf("granted, but not without an end: %v", err)
	}
	ref := driver.HoldRef{Resource: a.q.Resource, LockID: a.q.LockID, HoldID: a.q.HoldID, Token: token}
	sent := time.Now()
	r, err := a.x.s.renewOne(ctx, driver.RenewRequest{HoldRef: ref, TTL: driver.Forever})
	a.x.s.opts.Observer.storeCall(a.x.r.Context(), "renew", sent, err)
	if err != nil {
		return driver.Unknown, fmt.Errorf("granted, but not without an end: %v", err) // unknown, whatever it is
	}
	return r.Left, nil
}

// renewOne renews one hold.
func (s *Server) renewOne(ctx context.Context, q driver.RenewRequest) (driver.RenewResult, error) {
	rs, err := s.store.Renew(ctx, []driver.RenewRequest{q})
	switch {
	case err != nil:
		return driver.RenewResult{Left: driver.Unknown}, fmt.Errorf("no answer to a renewal: %v", err)
	case len(rs) == 0:
		return driver.RenewResult{Left: driver.Unknown}, errNoResult
	}
	return rs[0], rs[0].Err
}

var errNoResult = errors.New("the store left out the result")

// definite reports whether the error says that the request was not applied.
func definite(err error) bool {
	return errors.Is(err, errNotSent) || driver.Definite(err)
}

// safeFor returns for how long the caller may act as holder from when it sent its request:
// nil if the store did not tell.
//
// The hold ends at the store no earlier than left after the deciding attempt was sent. The
// caller sent its request no later than it was received. So, counted from then, the hold has
// the time until that attempt was sent, and what was left, less a margin for clocks that do
// not run alike. A machine that slept in between makes the first part too short: the caller
// then stops too early. It never stops too late.
func safeFor(received, sent time.Time, left, ttl time.Duration) *wire.Millis {
	switch left {
	case driver.Unknown:
		return nil
	case driver.Forever:
		m := wire.Forever
		return &m
	}
	// A hold may have more left than was asked for: a renewal never shortens it.
	margin := left
	if ttl != driver.Forever {
		margin = max(ttl, left)
	}
	safe := wire.MillisOf(sent.Sub(received) + left - driver.DefaultMargin(margin))
	return &safe
}
