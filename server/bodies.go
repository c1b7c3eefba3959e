package server

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// largeBody is the size from which bodies are large. Only renewals and releases can be
	// as large as that.
	largeBody = 256 << 10
	// maxLargeBodies is how many large renewals are in memory at a time, and how many large
	// releases; maxLargeOfCaller is how many of these one caller has.
	maxLargeBodies, maxLargeOfCaller = 8, 2
	// largePatience is how long a request waits until it may become large.
	largePatience = 10 * time.Second
)

// pool bounds the large bodies of a kind of request. One that is small, or has not become
// large yet, needs nothing of it: who sends slowly keeps nobody out.
type pool struct {
	all chan struct{} // a token for each large body

	mu sync.Mutex
	of map[string]*share
}

// share is what one caller has of a pool.
type share struct {
	tokens chan struct{}
	users  int // requests that have a token or wait for one
}

func newPool() *pool {
	return &pool{all: make(chan struct{}, maxLargeBodies), of: make(map[string]*share)}
}

// enter waits until there is room for a large body of the caller: first in the caller's own
// share, so that one caller does not fill the queue for the room of all. leave gives the room
// back.
func (p *pool) enter(ctx context.Context, caller string) (leave func(), err error) {
	own := p.join(caller).tokens
	leave = func() { p.part(caller) }
	for _, room := range []chan struct{}{own, p.all} {
		select {
		case room <- struct{}{}:
			before := leave
			leave = func() {
				<-room
				before()
			}
		case <-ctx.Done():
			leave()
			return nil, ctx.Err()
		}
	}
	return leave, nil
}

func (p *pool) join(caller string) *share {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.of[caller]
	if s == nil {
		s = &share{tokens: make(chan struct{}, maxLargeOfCaller)}
		p.of[caller] = s
	}
	s.users++
	return s
}

func (p *pool) part(caller string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[caller].users--; p.of[caller].users == 0 {
		delete(p.of, caller)
	}
}

var errTooManyLarge = errors.New("too many large requests at once")
