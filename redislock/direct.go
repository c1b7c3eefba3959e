package redislock

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// direct is a connection for one caller at a time, who sends by itself. go-redis waits
// for a reply until its own time-out, whatever happens to the context; so others hand
// their calls to a goroutine. To wake that and be woken by it takes longer than a server
// on the same machine does. Here the connection is closed when the context ends.
type direct struct {
	client *redis.Client // with one connection
	use    sync.Mutex    // held by the caller

	mu      sync.Mutex
	caller  *caller         // who uses the connection, or nil
	sending context.Context // for go-redis; ends when the caller leaves
	leave   context.CancelFunc
	conns   []net.Conn // the last few: one that nobody waits for any more may be made late
}

// newDirect leads to where a client of this package's own leads.
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

// run runs a call if its caller is alone, and reports whether it did.
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
	alone := s.pipelines.alone(by)
	if alone {
		s.exec(sending, d.client, []*call{c})
	} else {
		by.leave = by.tell
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.caller = nil
	return alone
}

// cut closes the connection under a caller.
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
