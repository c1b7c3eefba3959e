// Package tell calls user code, such as a logger, that nothing may wait for.
package tell

import "sync"

// Queue makes calls, in their order, in one goroutine, which exists while there are pending
// calls. Set the fields before the first call of a method.
type Queue struct {
	// Most is the largest number of pending calls. Further calls are left out.
	Most int
	// Overflow, if set, is called when there is room again.
	Overflow func(leftOut int)

	mu      sync.Mutex // not held during calls of user code
	calls   []func()
	leftOut int
	done    chan struct{} // closed when no call is pending; nil if none is
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

// run makes all calls. If a call ends the goroutine, as t.FailNow does, another goroutine
// continues.
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

// Pending returns a channel that is closed when no call is pending, or nil if none is.
func (q *Queue) Pending() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.done
}
