package sqlitelock

import (
	"context"
	"errors"
	"sync"
)

var errClosed = errors.New("the store is closed")

// pool lends connections, at most as many as it has slots. Whoever waits gets
// one in the order of coming. It prefers the connection used last, whose page
// cache is warm, and opens another only when all it has are lent.
type pool struct {
	open   func() (*conn, error)
	slots  chan struct{}
	closed chan struct{}

	mu   sync.Mutex
	idle []*conn
}

func newPool(size int, open func() (*conn, error)) *pool {
	return &pool{open: open, slots: make(chan struct{}, size), closed: make(chan struct{})}
}

// get waits for a connection until ctx ends.
func (p *pool) get(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-p.closed:
		return nil, errClosed
	default:
	}
	select {
	case p.slots <- struct{}{}:
	case <-p.closed:
		return nil, errClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return p.take()
}

// idleNow returns a connection that is open and free at this moment, or nil.
func (p *pool) idleNow() *conn {
	select {
	case p.slots <- struct{}{}:
	default:
		return nil
	}
	if c := p.pop(); c != nil {
		return c
	}
	<-p.slots
	return nil
}

// take returns a connection for a slot that the caller has.
func (p *pool) take() (*conn, error) {
	if c := p.pop(); c != nil {
		return c, nil
	}
	c, err := p.open()
	if err != nil {
		<-p.slots
		return nil, err
	}
	return c, nil
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) == 0 {
		return nil
	}
	c := p.idle[len(p.idle)-1]
	p.idle = p.idle[:len(p.idle)-1]
	return c
}

// put takes back a connection that worked.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	p.idle = append(p.idle, c)
	p.mu.Unlock()
	<-p.slots
}

// drop closes a connection that failed, together with any transaction that is
// still open on it. The next that needs one opens another.
func (p *pool) drop(c *conn) {
	_ = c.close() // what failed has been reported
	<-p.slots
}

// close waits until all connections are back and closes them. It is called once.
func (p *pool) close() error {
	close(p.closed)
	var errs []error
	for range cap(p.slots) {
		p.slots <- struct{}{}
	}
	for c := p.pop(); c != nil; c = p.pop() {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}
