package sqlitelock

import (
	"context"
	"errors"
	"sync"
)

var errClosed = errors.New("the store is closed")

// pool lends connections, at most as many as it has slots. Whoever waits gets
// one in the order of coming. It prefers the connection used last, whose page
// cache is warm; a nil connection stands for one that was not opened yet.
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

// get waits for a slot until ctx ends, and returns its connection or nil.
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
	return p.pop(), nil
}

// tryGet is get that does not wait.
func (p *pool) tryGet() (c *conn, free bool) {
	select {
	case p.slots <- struct{}{}:
		return p.pop(), true
	default: // also once the pool is closed
		return nil, false
	}
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

// put takes back a slot with its connection, if that was opened.
func (p *pool) put(c *conn) {
	if c != nil {
		p.mu.Lock()
		p.idle = append(p.idle, c)
		p.mu.Unlock()
	}
	<-p.slots
}

// failed takes back a slot whose connection failed. It undoes what was begun, and
// keeps the connection: as long as one is open nobody may delete the log, so that
// a log which is another is one that somebody deleted nevertheless.
func (p *pool) failed(c *conn) {
	undo(c)
	p.put(c)
}

// undo ends the transaction of a connection, if it has one.
func undo(c *conn) {
	if c != nil {
		_ = c.script(rollbackSQL) // fails where there is nothing to undo
	}
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
