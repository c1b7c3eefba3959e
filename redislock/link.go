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
type link struct {
	client *redis.Client

	mu    sync.Mutex
	conn  net.Conn // the last one
	using int      // by whom, if not by nobody
	users int
}

// newLink makes a link to where a client of this package's own leads.
func newLink(of *redis.Client) *link {
	l := &link{}
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

// use runs do, which uses the link's client, and breaks its connection off if ctx
// ends meanwhile.
func (l *link) use(ctx context.Context, do func(ctx context.Context)) {
	l.mu.Lock()
	l.users++
	user := l.users
	l.using = user
	l.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.using == user && l.conn != nil {
			l.conn.Close()
		}
	})
	do(ctx)
	stop()
	l.mu.Lock()
	l.using = 0
	l.mu.Unlock()
}
