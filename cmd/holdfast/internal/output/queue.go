package output

import (
	"fmt"
	"sync"
	"time"
)

const (
	// maxLines is how many lines wait for a reader of stderr. All others are left out.
	maxLines = 256
	// briefly is how long one line is waited for. It keeps the lines of this program and of
	// its command in their order, as long as somebody reads them.
	briefly = 100 * time.Millisecond
	// atEnd is how long this program stays for the lines that are not written at its end.
	atEnd = time.Second
)

// stderr is the queue of all that this program draws and says on stderr.
var stderr = queue{omitted: func(n int) {
	write(lineOf("note", nil, fmt.Sprintf("%d lines are missing here, because stderr was not read", n)))
}}

// WaitBriefly makes this program wait for the readers of stderr only briefly from now on:
// what holds a lock does not depend on them.
func WaitBriefly() { stderr.waitBriefly() }

// Draw calls the function, which draws on stderr, between two lines of Say.
func Draw(draw func()) { stderr.do(draw) }

// Flush waits until everything is written. It is for the end of the program.
func Flush() { stderr.wait(atEnd) }

// queue calls functions that write, one after the other, in a goroutine of its own: a write
// to a pipe that nobody reads, or to a stopped terminal, takes forever.
type queue struct {
	omitted func(n int) // writes that n functions were not called

	mu      sync.Mutex
	waiting []func()
	left    int           // how many were left out after those that wait
	idle    chan struct{} // closed when nothing is left to do; nil: there is nothing
	brief   bool          // see WaitBriefly
	stuck   bool          // a wait was in vain, and the queue has not been empty since
}

func (q *queue) waitBriefly() {
	q.mu.Lock()
	q.brief = true
	q.mu.Unlock()
}

// do calls the function after those before it, and waits until it was called.
func (q *queue) do(write func()) {
	q.mu.Lock()
	if q.left > 0 || len(q.waiting) >= maxLines {
		q.left++
	} else {
		q.waiting = append(q.waiting, write)
	}
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.empty()
	}
	most := briefly
	if q.stuck {
		most = 0
	}
	q.mu.Unlock()
	q.wait(most)
}

// wait waits until nothing is left to do, at most for that time if that is to be brief.
func (q *queue) wait(most time.Duration) {
	q.mu.Lock()
	idle, brief := q.idle, q.brief
	q.mu.Unlock()
	switch {
	case idle == nil:
		return
	case !brief:
		<-idle
		return
	}
	select {
	case <-idle:
	case <-time.After(most):
		q.mu.Lock()
		q.stuck = q.idle != nil
		q.mu.Unlock()
	}
}

// empty calls what waits until nothing does.
func (q *queue) empty() {
	for {
		q.mu.Lock()
		var next func()
		switch n := q.left; {
		case len(q.waiting) > 0:
			next, q.waiting = q.waiting[0], q.waiting[1:]
		case n > 0:
			q.left = 0
			next = func() { q.omitted(n) }
		default:
			close(q.idle)
			q.idle, q.stuck = nil, false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		next()
	}
}
