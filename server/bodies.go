package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/server/front"
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

// enter waits until there is room for a large body of the caller. Among those who wait for
// the room of all are no more requests of one caller than it may have. leave gives the room
// back.
func (p *pool) enter(ctx context.Context, caller string) (leave func(), err error) {
	s := p.join(caller)
	select {
	case s.tokens <- struct{}{}:
	case <-ctx.Done():
		p.part(caller)
		return nil, ctx.Err()
	}
	select {
	case p.all <- struct{}{}:
	case <-ctx.Done():
		<-s.tokens
		p.part(caller)
		return nil, ctx.Err()
	}
	return func() {
		<-p.all
		<-s.tokens
		p.part(caller)
	}, nil
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

// readAll reads the body to its end. If it is large, it is counted in the pool until leave
// is called, which must be done in any case.
func (x *exchange) readAll(most int64, large *pool) (body []byte, leave func(), err error) {
	leave = func() {}
	r := http.MaxBytesReader(x.w, x.r.Body, most)
	body, err = io.ReadAll(io.LimitReader(r, largeBody+1))
	if err != nil || len(body) <= largeBody {
		return body, leave, err
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), largePatience)
	defer cancel()
	enough, err := large.enter(ctx, front.Sender(x.caller, front.AddressOf(x.r)))
	if err != nil {
		return nil, leave, errTooManyLarge
	}
	whole := bytes.NewBuffer(body)
	_, err = whole.ReadFrom(r)
	return whole.Bytes(), enough, err
}
