package server

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/server/budget"
)

// attemptsPerProcessor is how many attempts to acquire are at the store at a time for each
// processor. A store sends some requests at a time, and the others wait in turn: renewals would
// wait for all acquires that came before them.
const attemptsPerProcessor = 16

// turns lets so many attempts to acquire be at the store at a time. The callers of the others
// come in turn: however many one of them sends, another waits for one of these at most.
type turns struct {
	mu      sync.Mutex
	free    int
	waiting map[budget.Account][]chan<- struct{} // in the order in which they came
	next    []budget.Account                     // of waiting, in turn
}

func newTurns() *turns {
	return &turns{free: attemptsPerProcessor * runtime.GOMAXPROCS(0), waiting: map[budget.Account][]chan<- struct{}{}}
}

// enter waits for a turn of the caller, and reports whether it has one: not if ctx ends first.
// Who has one leaves.
func (t *turns) enter(ctx context.Context, who budget.Account) bool {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return true
	}
	turn := make(chan struct{}, 1)
	if len(t.waiting[who]) == 0 {
		t.next = append(t.next, who)
	}
	t.waiting[who] = append(t.waiting[who], turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
		t.abandon(who, turn)
		return false
	}
}

// abandon gives back a turn that came too late, or takes the place of one that has not come.
func (t *turns) abandon(who budget.Account, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.waiting[who]
	i := slices.Index(all, chan<- struct{}(turn))
	if i < 0 {
		t.pass()
		return
	}
	t.keep(who, slices.Delete(all, i, i+1))
	if len(all) == 1 {
		t.next = slices.DeleteFunc(t.next, func(a budget.Account) bool { return a == who })
	}
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pass()
}

// pass gives a turn to the caller that is next.
func (t *turns) pass() {
	if len(t.next) == 0 {
		t.free++
		return
	}
	who := t.next[0]
	t.next = t.next[1:]
	all := t.waiting[who]
	all[0] <- struct{}{}
	if t.keep(who, all[1:]) {
		t.next = append(t.next, who)
	}
}

// keep notes who of a caller waits, and reports whether anybody does.
func (t *turns) keep(who budget.Account, all []chan<- struct{}) bool {
	if len(all) == 0 {
		delete(t.waiting, who)
		return false
	}
	t.waiting[who] = all
	return true
}
