package redislock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// beat is how long somebody waits at least, and twice that at most, before the
// context is looked at.
const beat = 10 * time.Millisecond

// restful is after how many beats without anybody who waits there are none.
const restful = 20

// pulse tells those who wait for replies that it takes long. As a rule replies come
// soon, and then to have asked a context for its end, which takes a timer, would have
// cost as much as all else.
type pulse struct {
	each func() // called at each beat

	mu      sync.Mutex
	first   *waiter // who waits, in a list
	used    bool    // since the last beat
	beats   bool
	shut    bool
	closed  chan struct{}
	beating sync.WaitGroup
}

// waiter is who waits for some replies.
type waiter struct {
	left atomic.Int64  // replies that are not there
	told chan struct{} // has a value if none is left, or if it takes long
	gone atomic.Bool   // it no longer waits, and may have cleaned up after what it asked for

	late       bool // was there at the last beat
	prev, next *waiter
}

func newWaiter(replies int) *waiter {
	w := &waiter{told: make(chan struct{}, 1)}
	w.left.Store(int64(replies))
	return w
}

func (w *waiter) tell() {
	select {
	case w.told <- struct{}{}:
	default: // it has not yet taken note of the last time
	}
}

// replied counts a reply.
func (w *waiter) replied() {
	if w.left.Add(-1) == 0 {
		w.tell()
	}
}

// await returns when all replies are there. Its error is that of ctx.
func (p *pulse) await(ctx context.Context, w *waiter) error {
	p.enter(w)
	defer p.leave(w)
	<-w.told
	for w.left.Load() > 0 {
		select {
		case <-w.told:
		case <-ctx.Done():
			w.gone.Store(true)
			return ctx.Err()
		}
	}
	return nil
}

func (p *pulse) enter(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start()
	if p.first != nil {
		p.first.prev = w
	}
	w.next, p.first = p.first, w
	if p.shut {
		w.tell()
	}
}

func (p *pulse) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		p.first = w.next
	}
}

// need makes sure that there are beats for a while.
func (p *pulse) need() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.start()
}

// start is called with the mutex held.
func (p *pulse) start() {
	p.used = true
	if !p.beats && !p.shut {
		p.beats = true
		p.beating.Go(p.run)
	}
}

func (p *pulse) run() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for rested := 0; rested <= restful; rested++ {
		select {
		case <-ticker.C:
		case <-p.closed:
			return
		}
		if p.once(rested == restful) {
			rested = -1
		}
		p.each()
	}
}

// once is a beat, maybe the last one. It reports whether there must be more of them.
func (p *pulse) once(last bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	more := p.used || p.first != nil
	p.used = false
	for w := p.first; w != nil; w = w.next {
		if w.late {
			w.tell()
		}
		w.late = true
	}
	if last && !more {
		p.beats = false
	}
	return more
}

// close ends the beats.
func (p *pulse) close() {
	p.mu.Lock()
	p.shut = true
	for w := p.first; w != nil; w = w.next {
		w.tell()
	}
	close(p.closed)
	p.mu.Unlock()
	p.beating.Wait()
}
