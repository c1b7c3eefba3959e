package server

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/budget"
)

// liveHolds are holds that the server has seen, by a grant or a renewal. Who names one of them
// with its token is never told to come again later.
type liveHolds struct {
	mu    sync.Mutex
	all   map[driver.HoldID]liveHold
	swept time.Time
}

type liveHold struct {
	token uint64
	until time.Time
	claim budget.Claim // of budget.Holds
}

// livePause is how often holds are looked for that have ended by themselves.
const livePause = 10 * time.Second

// note remembers a hold, unless its caller, or all callers, have too many that are remembered.
func (l *liveHolds) note(a budget.Account, ref driver.HoldRef, token uint64, sent time.Time, left, ttl time.Duration) {
	if left == driver.Unknown {
		left = ttl
	}
	until := sent.Add(left)
	if left == driver.Forever {
		until = sent.Add(driver.MaxTTL)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.all[ref.HoldID]
	switch {
	case ok && h.claim.Owner == a:
		h.token, h.until = cmp.Or(token, h.token), until
		l.all[ref.HoldID] = h
		return
	case ok, token == 0: // nobody takes it from another caller
		return
	}
	if sent.Sub(l.swept) > livePause {
		l.swept = sent
		maps.DeleteFunc(l.all, func(_ driver.HoldID, h liveHold) bool { return l.ended(&h, sent) })
	}
	if claim, ok := a.Open(budget.Holds, 1); ok {
		l.all[ref.HoldID] = liveHold{token, until, claim}
	}
}

// ended reports whether the hold has ended, and gives back what it takes.
func (*liveHolds) ended(h *liveHold, now time.Time) bool {
	if now.Before(h.until) {
		return false
	}
	h.claim.Close()
	return true
}

// has reports whether the server has seen the hold of the caller, and it has not ended since.
func (l *liveHolds) has(a budget.Account, ref wire.Ref) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, ok := l.all[ref.HoldID]
	return ok && h.claim.Owner == a && h.token == ref.Token && time.Now().Before(h.until)
}

// forget forgets a hold of the caller that has ended.
func (l *liveHolds) forget(a budget.Account, id driver.HoldID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if h, ok := l.all[id]; ok && h.claim.Owner == a {
		h.claim.Close()
		delete(l.all, id)
	}
}
