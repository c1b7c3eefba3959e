package redislock

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// direct is a connection that one caller at a time uses from its own goroutine. go-redis
// waits for a reply until its own time-out, even after the context has ended. Therefore
// calls normally go through a goroutine of the pipeline; but waking that goroutine and
// being woken by it takes longer than a request to a server on the same machine. Here the
// connection is closed when the context ends.
type direct struct {
	client *redis.Client // with one connection
	use    sync.Mutex    // held by the caller

	mu      sync.Mutex
	caller  *caller         // the caller that uses the connection, or nil
	sending context.Context // for go-redis; ends when the caller leaves
	leave   context.CancelFunc
	conns   []net.Conn // the last few: go-redis may open one after its caller has left
}

// newDirect returns a connection to the server of a client that this package has made.
func newDirect(of *redis.Client) *direct {
	d := &direct{}
	d.sending, d.leave = context.WithCancel(context.Background())
	o := *of.Options()
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 0, 0
	dial := redis.NewDialer(&o)
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.conns = append(d.conns[max(0, len(d.conns)-3):], conn)
		return conn, nil
	}
	d.client = redis.NewClient(&o)
	return d
}

// run performs a call if no other call is under way, and reports whether it did.
func (d *direct) run(s *Store, by *caller, c *call) bool {
	if !d.use.TryLock() {
		return false
	}
	defer d.use.Unlock()
	by.leave = func() { d.cut(by) }
	d.mu.Lock()
	d.caller = by
	if d.sending.Err() != nil {
		d.sending, d.leave = context.WithCancel(context.Background())
	}
	sending := d.sending
	d.mu.Unlock()
	alone := s.pipelines.enterAlone(by)
	if alone {
		s.exec(sending, d.client, []*call{c})
	} else {
		by.leave = by.wake
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caller = nil
	return alone
}

// cut closes the connection if that caller still uses it.
func (d *direct) cut(by *caller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.caller != by {
		return
	}
	d.leave()
	for _, conn := range d.conns {
		conn.Close()
	}
}
