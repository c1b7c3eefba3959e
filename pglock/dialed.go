package pglock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

const (
	// fillTimeout bounds an attempt to have pool_min_conns.
	fillTimeout = time.Minute
	// closeTimeout bounds the end of a connection, which counts until then.
	closeTimeout = 15 * time.Second
	// settle is how long after the end of a connection the pool counts its connections.
	settle = 500 * time.Millisecond
)

// dialed is a pool of connections that it dials itself, with the settings of a URL. It
// behaves as a pgxpool.Pool does, of which it has what the store needs.
//
// A connection attempt goes on when the caller that began it has given up: the
// connection is for the next one. It is bounded by connect_timeout, which is always set.
type dialed struct {
	settings
	conns *puddle.Pool[*link]
	stop  context.CancelFunc // ends tend
	done  sync.WaitGroup     // of tend
	ended chan struct{}      // a connection has ended before its time
}

func dial(s settings) (*dialed, error) {
	p := &dialed{settings: s, ended: make(chan struct{}, 1)}
	conns, err := puddle.NewPool(&puddle.Config[*link]{
		Constructor: p.connectOne, Destructor: (*link).end, MaxSize: int32(s.maxConns),
	})
	if err != nil {
		return nil, err
	}
	p.conns = conns
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	p.done.Go(func() { p.tend(ctx) })
	return p, nil
}

func (p *dialed) connectOne(ctx context.Context) (*link, error) {
	on, err := pgconn.ConnectConfig(ctx, p.connect.Copy())
	if err != nil {
		return nil, err
	}
	l := &link{PgConn: on, pool: p, prepared: make(map[string]*pgconn.StatementDescription)}
	if p.lifetime > 0 {
		l.until = time.Now().Add(p.lifetime + time.Duration(rand.Float64()*float64(p.jitter)))
	}
	return l, nil
}

// acquire implements pool. It closes the connections that it finds too old or dead, as
// many as there may be, and one more.
func (p *dialed) acquire(ctx context.Context) (conn, error) {
	for range p.maxConns + 1 {
		r, err := p.conns.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		l := r.Value()
		l.held = r
		if !l.old() && r.IdleDuration() <= p.pingAfter {
			return l, nil
		}
		alive := make(chan bool, 1)
		go func() { alive <- !l.old() && l.answers() }()
		select {
		case is := <-alive:
			if is {
				return l, nil
			}
			l.drop()
		case <-ctx.Done(): // the ping goes on, and the connection is for the next one
			go func() {
				if <-alive {
					l.release()
				} else {
					l.drop()
				}
			}()
			return nil, ctx.Err()
		}
	}
	return nil, errors.New("every pooled connection expired or failed its ping: pool_max_conn_lifetime is too short, or the server does not answer")
}

func (p *dialed) own() (pool, error) {
	s := p.settings
	s.connect = s.connect.Copy()
	s.connect.OnNotification = hear
	s.maxConns, s.minConns, s.minIdle, s.pingAfter = ownConns, 0, 0, longIdle
	return dial(s)
}

// close implements pool. Attempts to connect end at once.
func (p *dialed) close() {
	p.stop()
	p.done.Wait()
	p.conns.Close()
}

// tend closes connections that are too old or unused for too long, and opens those that
// are always to be there, until ctx ends.
func (p *dialed) tend(ctx context.Context) {
	tick := time.NewTicker(p.period)
	defer tick.Stop()
	var soon <-chan time.Time
	p.fill(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.ended:
			if soon == nil {
				soon = time.After(settle)
			}
			continue
		case <-soon:
			soon = nil
		case <-tick.C:
		}
		p.endUnused()
		p.fill(ctx)
	}
}

// endUnused leaves minConns, but keeps none that is too old.
func (p *dialed) endUnused() {
	total := int(p.conns.Stat().TotalResources())
	for _, r := range p.conns.AcquireAllIdle() {
		l := r.Value()
		l.held = r
		if l.old() || r.IdleDuration() > p.maxIdle && total > p.minConns {
			l.drop()
			total--
			continue
		}
		r.ReleaseUnused()
	}
}

// fill opens the connections that are missing, one after the other, and gives up at the
// first error until the next look.
func (p *dialed) fill(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, fillTimeout)
	defer cancel()
	stat := p.conns.Stat()
	for range max(p.minConns-int(stat.TotalResources()), p.minIdle-int(stat.IdleResources())) {
		if err := p.conns.CreateResource(ctx); err != nil {
			return
		}
	}
}

// link is a connection of a dialed pool.
type link struct {
	*pgconn.PgConn
	pool     *dialed
	held     *puddle.Resource[*link] // while it is acquired
	until    time.Time               // it is too old then; zero: never
	prepared map[string]*pgconn.StatementDescription
}

func (l *link) raw() *pgconn.PgConn { return l.PgConn }

func (l *link) old() bool { return !l.until.IsZero() && time.Now().After(l.until) }

// answers reports whether the server answers on it.
func (l *link) answers() bool {
	ctx, cancel := context.WithTimeout(context.Background(), l.pool.pingTimeout)
	defer cancel()
	return l.Ping(ctx) == nil
}

// release implements conn. A connection within a transaction is not for others.
func (l *link) release() {
	if l.IsClosed() || l.IsBusy() || l.TxStatus() != 'I' || l.old() {
		l.drop()
		return
	}
	l.held.Release()
}

func (l *link) hijack() { l.held.Hijack() }

// drop closes the connection in the background. It counts until it is closed.
func (l *link) drop() {
	l.held.Destroy()
	select {
	case l.pool.ended <- struct{}{}:
	default:
	}
}

// end closes the connection, and waits until it is closed: after an error pgconn does it
// in the background, and asks the server to cancel the statement.
func (l *link) end() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = l.Close(ctx)
	select {
	case <-l.CleanupDone():
	case <-ctx.Done():
	}
}

func (l *link) query(ctx context.Context, sql string, prepare bool, args []any, into answer) error {
	values, err := encode(args)
	if err != nil {
		return err
	}
	var reader *pgconn.ResultReader
	if prepare {
		statement, err := l.statement(ctx, sql)
		if err != nil {
			return err
		}
		reader = l.ExecStatement(ctx, statement, values, nil, nil)
	} else {
		reader = l.ExecParams(ctx, sql, values, nil, nil, nil)
	}
	var bad error // in a row: the rest is read nevertheless
	for reader.NextRow() {
		if bad == nil {
			bad = into.add(reader.Values())
		}
	}
	if _, err := reader.Close(); err != nil {
		if prepare && hasCode(err, planChanged) {
			l.forget(ctx, sql)
		}
		return err
	}
	return bad
}

// statement prepares SQL at its first use. Its name is that of the SQL alone: should a
// proxy give the session to another client, the name means the same there or nothing.
func (l *link) statement(ctx context.Context, sql string) (*pgconn.StatementDescription, error) {
	if s := l.prepared[sql]; s != nil {
		return s, nil
	}
	digest := sha256.Sum256([]byte(sql))
	s, err := l.Prepare(ctx, "holdfast_"+hex.EncodeToString(digest[:16]), sql, nil)
	if err == nil {
		l.prepared[sql] = s
	}
	return s, err
}

// forget has the statement prepared again: somebody has installed the schema anew, and
// the server refuses to execute what was prepared before.
func (l *link) forget(ctx context.Context, sql string) {
	if s := l.prepared[sql]; s != nil && l.Deallocate(ctx, s.Name) == nil {
		delete(l.prepared, sql)
	}
}
