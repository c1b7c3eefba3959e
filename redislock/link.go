package redislock

import (
	"context"
	"crypto/tls"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// link is one connection to a server, for one caller at a time, who can break it
// off. go-redis waits for a reply until its own time-out, whatever happens to the
// context; so whoever must go before hands its request to a goroutine. To wake that
// and be woken by it takes longer than a server on the same machine does. A caller
// who is alone sends by the link instead.
//
// The caller's context is looked at from the second beat of the pulse on.
type link struct {
	client *redis.Client

	mu     sync.Mutex
	conn   net.Conn        // the last one
	ctx    context.Context // for go-redis; ends when the connection is broken off
	cancel context.CancelFunc

	caller  context.Context // of who uses the link; nil: nobody
	uses    int
	seen    int           // uses, at the last beat
	over    chan struct{} // closed when this use is over; nil: nobody waits for that
	follows sync.WaitGroup
}

// newLink makes a link to where a client of this package's own leads.
func newLink(of *redis.Client) *link {
	l := &link{}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	o := *of.Options()
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 0, 0
	secure := o.TLSConfig
	o.TLSConfig = nil
	o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
		d := net.Dialer{Timeout: o.DialTimeout}
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		l.mu.Lock()
		l.conn = conn
		l.mu.Unlock()
		if secure == nil {
			return conn, nil
		}
		return shaken(ctx, conn, secure, address)
	}
	l.client = redis.NewClient(&o)
	return l
}

// shaken makes a connection secure.
func shaken(ctx context.Context, conn net.Conn, config *tls.Config, address string) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	secured := tls.Client(conn, config)
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// use runs do, which uses the link's client with the context that it is given, and
// breaks the connection off if the caller's ctx ends meanwhile.
func (l *link) use(caller context.Context, do func(ctx context.Context)) {
	l.mu.Lock()
	if l.ctx.Err() != nil {
		l.ctx, l.cancel = context.WithCancel(context.Background())
	}
	ctx := l.ctx
	l.caller = caller
	l.uses++
	l.mu.Unlock()
	do(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller = nil
	if l.over != nil {
		close(l.over)
		l.over = nil
	}
}

// beat finds a use that lasts.
func (l *link) beat() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.caller != nil && l.uses == l.seen && l.over == nil {
		caller, over := l.caller, make(chan struct{})
		l.over = over
		l.follows.Go(func() { l.follow(caller, over) })
	}
	l.seen = l.uses
}

// follow breaks the connection off if the caller's context ends before that use.
func (l *link) follow(caller context.Context, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-caller.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-over:
	default:
		l.cancel()
		if l.conn != nil {
			l.conn.Close()
		}
	}
}

func (l *link) close() error {
	err := l.client.Close()
	l.follows.Wait()
	return err
}
