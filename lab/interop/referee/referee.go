// Package referee watches the programs of a race and reports if two of them hold incompatible
// locks at the same time.
package referee

import (
	"fmt"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// Referee records who holds a resource, by the word of the players alone: a player enters after
// it is granted the resource, and leaves before it releases it or its time ends. Players that
// are inside at the same time have held the resource at the same time. The Referee uses no
// store, and shares no code with one. Its methods may be called concurrently.
type Referee struct {
	// Limit is the limit of shared locks, 0: none. Set it before anybody enters.
	Limit int

	mu     sync.Mutex
	inside map[string]player
	grants int
	tokens map[uint64]bool // of the players that have one
	last   uint64          // the largest token
	faults []string
}

// player is a player that is inside.
type player struct {
	mode  driver.Mode
	holds func() bool // the player's own word; nil: until it leaves
}

// New returns a Referee of a resource that nobody holds.
func New(limit int) *Referee {
	return &Referee{Limit: limit, inside: make(map[string]player), tokens: make(map[uint64]bool)}
}

// Fault records a fault.
func (r *Referee) Fault(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(format, args...)
}

func (r *Referee) note(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// Faults returns all faults so far.
func (r *Referee) Faults() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.faults)
}

// Grants returns how many players have entered.
func (r *Referee) Grants() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants
}

// Enter lets a player in until it leaves. token is 0 if the player has none.
func (r *Referee) Enter(who string, mode driver.Mode, token uint64) {
	r.EnterWhile(who, mode, token, nil)
}

// EnterWhile lets in a player whose time may end before it leaves: it is inside only while
// holds returns true. holds must neither wait nor call the Referee.
func (r *Referee) EnterWhile(who string, mode driver.Mode, token uint64, holds func() bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants++
	// Shared locks may enter in another order than they were granted in.
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

// Leave lets a player out, if it is inside.
func (r *Referee) Leave(who string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.inside, who)
}
