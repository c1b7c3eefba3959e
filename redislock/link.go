package redislock

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// link is one connection to a server, for one caller at a time, who can break it
// off. go-redis waits for a reply until its own time-out, whatever happens to the
// context; so whoever must go before hands its request to a goroutine. To wake that
// and be woken by it takes longer than a server on the same machine does. A caller
// who is alone sends by the link instead.
//
// A reply comes soon, as a rule, and then nobody has looked at the caller's context:
// to do so takes a timer. It is looked at from the next tick on.
type link struct {
	client *redis.Client

	mu       sync.Mutex
	conn     net.Conn        // the last one
	ctx      context.Context // for go-redis; ends when the connection is broken off
	cancel   context.CancelFunc
	caller   context.Context // of who uses the link; nil: nobody
	uses     int
	watching bool
	closed   chan struct{}
	watch    sync.WaitGroup
}

// tick is how often somebody looks whether a use of the link lasts, and restful how
// many ticks without any use end that.
const (
	tick    = 10 * time.Millisecond
	restful = 20
)

// newLink makes a link to where a client of this package's own leads.
func newLink(of *redis.Client) *link {
	l := &link{closed: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	o := *of.Options()
	o.PoolSize, o.MinIdleConns, o.MaxIdleConns, o.MaxActiveConns = 1, 0, 0, 0
	o.PipelinePoolSize = -1 // none of its own
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
	if !l.watching {
		l.watching = true
		l.watch.Go(l.look)
	}
	l.mu.Unlock()
	do(ctx)
	l.mu.Lock()
	l.caller = nil
	l.mu.Unlock()
}

// look finds the uses that last.
func (l *link) look() {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for seen, rested := 0, 0; rested < restful; {
		select {
		case <-ticker.C:
		case <-l.closed:
			return
		}
		l.mu.Lock()
		caller, use := l.caller, l.uses
		l.mu.Unlock()
		switch {
		case caller == nil:
			rested++
		case use != seen:
			seen, rested = use, 0
		default:
			l.follow(caller, use, ticker)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watching = l.caller != nil
	if l.watching {
		l.watch.Go(l.look)
	}
}

// follow breaks the connection off if the caller's context ends before that use of
// the link does.
func (l *link) follow(caller context.Context, use int, ticker *time.Ticker) {
	for {
		select {
		case <-caller.Done():
			l.mu.Lock()
			if l.caller != nil && l.uses == use {
				l.cancel()
				if l.conn != nil {
					l.conn.Close()
				}
			}
			l.mu.Unlock()
			return
		case <-ticker.C:
			l.mu.Lock()
			over := l.caller == nil || l.uses != use
			l.mu.Unlock()
			if over {
				return
			}
		case <-l.closed:
			return
		}
	}
}

func (l *link) close() error {
	close(l.closed)
	err := l.client.Close()
	l.watch.Wait()
	return err
}
