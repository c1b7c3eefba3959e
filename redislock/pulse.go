package redislock

import (
	"sync"
	"sync/atomic"
	"time"
)

// beat is how long somebody waits at least, and twice that at most, before the
// context is looked at.
const beat = 10 * time.Millisecond

// restful is after how many beats without anybody who waits there are none.
const restful = 20

// pulse tells those who wait for a reply that it takes long. As a rule it comes
// soon, and then to have asked a context for its end, which takes a timer, would have
// cost as much as all else.
type pulse struct {
	each func() // called at each beat

	next    atomic.Pointer[chan struct{}] // closed at the next beat; nil: there is none
	used    atomic.Bool                   // since the last one
	mu      sync.Mutex
	closed  chan struct{}
	shut    bool
	beating sync.WaitGroup
}

// wait returns a channel that is closed at a beat.
func (p *pulse) wait() <-chan struct{} {
	if !p.used.Load() {
		p.used.Store(true)
	}
	if next := p.next.Load(); next != nil {
		return *next
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if next := p.next.Load(); next != nil {
		return *next
	}
	next := make(chan struct{})
	if p.shut {
		close(next)
		return next
	}
	p.next.Store(&next)
	p.beating.Go(p.run)
	return next
}

func (p *pulse) run() {
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for rested := 0; ; {
		select {
		case <-ticker.C:
		case <-p.closed:
		}
		rested++
		if p.used.Swap(false) {
			rested = 0
		}
		p.mu.Lock()
		last := *p.next.Load()
		if over := p.shut || rested > restful; over {
			p.next.Store(nil)
			p.mu.Unlock()
			close(last)
			return
		}
		next := make(chan struct{})
		p.next.Store(&next)
		p.mu.Unlock()
		close(last)
		p.each()
	}
}

// close ends the beats.
func (p *pulse) close() {
	p.mu.Lock()
	p.shut = true
	close(p.closed)
	p.mu.Unlock()
	p.beating.Wait()
}
