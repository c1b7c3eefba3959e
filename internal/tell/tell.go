// Package tell makes calls of the user's code, such as a logger, that nothing waits for.
package tell

import "sync"

// Queue makes calls in the order in which they came. Its goroutine does nothing else, and
// exists while there is anything to call. Set the fields before the first call of a method.
type Queue struct {
	// Most is how many calls may wait. Further calls are left out.
	Most int
	// Overflow, if any, is called when there is room again.
	Overflow func(leftOut int)

	mu      sync.Mutex // never held across a call of the user's code
	calls   []func()
	leftOut int
	done    chan struct{} // closed when nothing is left to call; nil: nothing is
}

// Add queues a call. It never waits.
func (q *Queue) Add(call func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.calls) == q.Most {
		q.leftOut++
		return
	}
	q.calls = append(q.calls, call)
	if q.done == nil {
		q.done = make(chan struct{})
		go q.run()
	}
}

// run makes all calls. One may end the goroutine, as t.FailNow of a test does: then
// another goroutine goes on with the rest.
func (q *Queue) run() {
	call := q.next()
	defer func() {
		if call != nil {
			go q.run()
		}
	}()
	for call != nil {
		call()
		call = q.next()
	}
}

// next returns the next call, or nil if there is none.
func (q *Queue) next() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case len(q.calls) > 0:
		call := q.calls[0]
		q.calls[0] = nil
		q.calls = q.calls[1:]
		return call
	case q.leftOut > 0 && q.Overflow != nil:
		leftOut := q.leftOut
		q.leftOut = 0
		return func() { q.Overflow(leftOut) }
	}
	close(q.done)
	q.done = nil
	return nil
}

// Pending returns a channel that closes when nothing is left to call, or nil if
// nothing is.
func (q *Queue) Pending() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.done
}
