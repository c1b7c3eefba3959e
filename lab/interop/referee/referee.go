// Package referee watches whether two programs ever hold what only one may.
package referee

import (
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// Referee knows who holds a resource, by their own word alone: a player enters when
// it was granted the resource and leaves before it gives it up, or before its time
// ends. Players that the referee sees together have held the resource together. It
// uses no store, and shares no code with one. Its methods may be called concurrently.
type Referee struct {
	// Limit is that of shared locks, 0: none. It is set before anybody enters.
	Limit int

	mu     sync.Mutex
	inside map[string]player
	grants int
	tokens map[uint64]bool // of those who were told theirs
	last   uint64          // the largest of them
	faults []string
}

type player struct {
	mode  driver.Mode
	holds func() bool // its own word; nil: until it leaves
}

// New returns a Referee of a resource that nobody holds.
func New(limit int) *Referee {
	return &Referee{Limit: limit, inside: make(map[string]player), tokens: make(map[uint64]bool)}
}

// Fault notes what must not be.
func (r *Referee) Fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(format, args...)
}

func (r *Referee) note(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// Faults are all that were found.
func (r *Referee) Faults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults)
}

// Grants is how many have entered.
func (r *Referee) Grants() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants
}

// Enter lets somebody in, with a token or 0, until it leaves.
func (r *Referee) Enter(who string, mode driver.Mode, token uint64) {
	r.EnterWhile(who, mode, token, nil)
}

// EnterWhile lets somebody in whose time may end before it leaves: it is inside as
// long as it says that it holds the resource. holds must neither wait nor call the
// Referee.
func (r *Referee) EnterWhile(who string, mode driver.Mode, token uint64, holds func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants++
	// Of those who share it, the first one granted may come second.
	if token > 0 && (r.tokens[token] || mode == driver.Exclusive && token < r.last) {
		r.note("token %d of %s, after %d", token, who, r.last)
	}
	if token > 0 {
		r.tokens[token], r.last = true, max(r.last, token)
	}
	shared := 0
	for other, its := range r.inside {
		if its.holds != nil && !its.holds() {
			delete(r.inside, other)
			continue
		}
		if mode == driver.Exclusive || its.mode == driver.Exclusive {
			r.note("overlap: %s is granted it (%v) while %s holds it (%v)", who, mode, other, its.mode)
		}
		shared++
	}
	if r.Limit > 0 && mode == driver.Shared && shared >= r.Limit {
		r.note("overlap: %s is granted it while %d share it already, of at most %d", who, shared, r.Limit)
	}
	r.inside[who] = player{mode, holds}
}

// Leave lets somebody out, if it is inside.
func (r *Referee) Leave(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, who)
}
