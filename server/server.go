package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/history"
)

// Options change what New makes. The zero value of each is its default.
type Options struct {
	// Identify finds out who sent a request. Default: access.Everybody.
	Identify access.Identify
	// MaxWait is how long an acquire waits at most. It should be shorter than what proxies
	// wait for an answer. Default: 25 s.
	MaxWait time.Duration
	// StoreTimeout bounds each call of the store. Default: 10 s.
	StoreTimeout time.Duration
	// MaxWaits is how many acquires may wait at a time, and MaxWatches how many watches
	// there may be. Further ones are refused with 429. Default: 20,000 each.
	MaxWaits, MaxWatches int
	// MaxLists is how many lists are answered at a time, and MaxListsOfCaller how many of
	// one caller, if callers have names. Default: 16 and 4.
	MaxLists, MaxListsOfCaller int
	// Audit is told what callers acquire, release and are denied, and each forced release and
	// sweep also before it is done: that is refused if the error is not nil. See Event.
	Audit func(Event) error
	// History is told what becomes of holds, and is what GET /v1/history shows. It stays the
	// caller's to close, after the server; what others do it sees by Follow. Default: there is
	// none.
	History *history.Log
	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
	// Observer is told what the server does.
	Observer *Observer
}

// The defaults of Options.
const (
	DefaultMaxWait      = 25 * time.Second
	DefaultStoreTimeout = 10 * time.Second
	defaultMaxOpen      = 20_000
	defaultLists        = 16
	defaultListsOfOne   = 4
)

func withDefaults(opts *Options) (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxWait < 0 || o.StoreTimeout < 0 || o.MaxWaits < 0 || o.MaxWatches < 0 || o.MaxLists < 0 || o.MaxListsOfCaller < 0 {
		return o, errors.New("holdfast server: a negative option")
	}
	o.MaxWait = cmp.Or(o.MaxWait, DefaultMaxWait)
	o.StoreTimeout = cmp.Or(o.StoreTimeout, DefaultStoreTimeout)
	o.MaxWaits = cmp.Or(o.MaxWaits, defaultMaxOpen)
	o.MaxWatches = cmp.Or(o.MaxWatches, defaultMaxOpen)
	o.MaxLists = cmp.Or(o.MaxLists, defaultLists)
	o.MaxListsOfCaller = cmp.Or(o.MaxListsOfCaller, defaultListsOfOne)
	if o.Identify == nil {
		everybody := access.Everybody()
		o.Identify = func(*http.Request) (access.Caller, error) { return everybody, nil }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Observer == nil {
		o.Observer = new(Observer)
	}
	return o, nil
}

// Server serves the locks of one store. It is a http.Handler. All methods may be called
// concurrently.
type Server struct {
	opts     Options
	store    driver.Store
	routes   map[string]route
	identity identity
	lines    lines
	cleaner  cleaner
	limits   limits

	life     context.Context // of what goes on in the background
	end      context.CancelFunc
	serving  context.Context // until Drain
	drain    context.CancelFunc
	waits    context.Context // until EndWaits
	endWaits context.CancelFunc
	work     sync.WaitGroup // goroutines that Close waits for
	// hungWatches counts calls of the store's Watch that did not return in time.
	hungWatches atomic.Int64
}

// New returns a server of the locks in the store, which stays the caller's to close. It
// returns at once, and prepares the store in the background until that has succeeded; see
// WaitReady. The caller closes the server.
func New(store driver.Store, opts *Options) (*Server, error) {
	if store == nil {
		return nil, errors.New("holdfast server: no store")
	}
	o, err := withDefaults(opts)
	if err != nil {
		return nil, err
	}
	s := &Server{opts: o, store: store, identity: identity{found: make(chan struct{})}}
	s.life, s.end = context.WithCancel(context.Background())
	s.serving, s.drain = context.WithCancel(context.Background())
	s.waits, s.endWaits = context.WithCancel(context.Background())
	s.routes = s.makeRoutes()
	s.lines.init(s)
	s.cleaner.init(s)
	s.limits.init(&s.opts)
	s.work.Go(s.identify)
	return s, nil
}

// Format implements fmt.Formatter. It prints no more than what it is.
func (s *Server) Format(f fmt.State, _ rune) { fmt.Fprint(f, "server.Server") }

// WaitReady returns once the store is prepared, or the error of ctx, which then wraps what
// the store answered last.
func (s *Server) WaitReady(ctx context.Context) error {
	select {
	case <-s.identity.found:
		return nil
	case <-ctx.Done():
		s.identity.mu.Lock()
		defer s.identity.mu.Unlock()
		if err := s.identity.err; err != nil {
			return fmt.Errorf("%w; the store: %w", ctx.Err(), err)
		}
		return ctx.Err()
	}
}

// Close ends what the server does in the background. It waits a moment for the releases of
// holds whose callers have hung up, and closes no connection: end them before.
func (s *Server) Close() error {
	s.EndWaits()
	s.cleaner.close()
	s.end()
	s.lines.close()
	s.work.Wait()
	return nil
}
