package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/cleanup"
	"github.com/holdfast-go/holdfast/internal/clock"
	"github.com/holdfast-go/holdfast/internal/storecall"
	"github.com/holdfast-go/holdfast/internal/waitline"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/health"
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
	// Budget is what each caller may do. It should be that of package front, too. What is
	// beyond is refused with 429. Default: one of its own.
	Budget *budget.Budget
	// Audit is told what callers acquire, release and are denied, and each forced release and
	// sweep also before it is done: that is refused if the error is not nil. See Event.
	Audit func(Event) error
	// History is told what becomes of holds, and is what GET /v1/history shows. It stays the
	// caller's to close, after the server; what others do it sees by Follow. Default: there is
	// none.
	History *history.Log
	// Health is told of each call of the store, and whether it is prepared, or was replaced.
	// Default: one of its own.
	Health *health.Log
	// LongestTTL returns the longest TTL that callers may ask for, and whether they may have
	// holds without an end. So long nobody should lock anew once the store was replaced.
	// Default: nobody knows.
	LongestTTL func() (longest time.Duration, endless bool)
	// Logger gets what an operator should know. Default: nothing is logged.
	Logger *slog.Logger
	// Observer is told what the server does.
	Observer *Observer
}

// The defaults of Options.
const (
	DefaultMaxWait      = 25 * time.Second
	DefaultStoreTimeout = 10 * time.Second
)

func withDefaults(opts *Options) (Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.MaxWait < 0 || o.StoreTimeout < 0 {
		return o, errors.New("holdfast server: a negative option")
	}
	o.MaxWait = cmp.Or(o.MaxWait, DefaultMaxWait)
	o.StoreTimeout = cmp.Or(o.StoreTimeout, DefaultStoreTimeout)
	if o.Budget == nil {
		o.Budget = budget.New(nil)
	}
	if o.Identify == nil {
		everybody := access.Everybody()
		o.Identify = func(*http.Request) (access.Caller, error) { return everybody, nil }
	}
	if o.Health == nil {
		o.Health = health.New()
	}
	if o.LongestTTL == nil {
		o.LongestTTL = func() (time.Duration, bool) { return driver.Unknown, true }
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
	scope    *storecall.Scope // of what goes on in the background
	lines    *waitline.Lines
	cleaner  *cleanup.Cleaner

	live     liveHolds
	failures failures

	holdRows, waiterRows rowCount
	attempts             *turns // of attempts to acquire

	draining atomic.Bool
	waits    context.Context // until EndWaits
	endWaits context.CancelFunc
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
	s := &Server{
		opts: o, store: store, identity: newIdentity(),
		attempts: newTurns(), live: liveHolds{all: map[driver.HoldID]liveHold{}}, failures: failures{log: o.Logger, all: map[string]*failure{}},
	}
	o.Health.Preparing(nil)
	s.waits, s.endWaits = context.WithCancel(context.Background())
	s.routes = s.makeRoutes()
	s.scope = storecall.NewScope(clock.New())
	lines := waitline.Config{
		Scope: s.scope, Traits: store.Traits, Places: placesOfLine, Poll: pollLimit, MostAway: mostAway,
		Watched: func(_ string, began time.Time, err error) { s.storeCall(s.scope.Life, "watch", began, err) },
	}
	if w, ok := store.(driver.Watcher); ok {
		lines.Watch = w.Watch
	}
	s.lines = waitline.New(lines)
	s.cleaner = cleanup.New(cleanup.Config{Scope: s.scope, Send: s.sendCleanUp, Used: s.isRenewed, Batch: cleanBatch})
	s.scope.Go(s.identify)
	return s, nil
}

// mostAway is for how many waiters a line keeps a turn while they are not there.
const mostAway = 40_000

// cleanBatch is how many holds one call of a clean-up releases. They are few, because each is
// looked at before.
const cleanBatch = 50

// isRenewed reports whether the store has the hold, and it was renewed: somebody has found it
// by its lock ID, and uses it. Its clean-up ends then.
func (s *Server) isRenewed(ctx context.Context, ref driver.HoldRef) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.StoreTimeout)
	defer cancel()
	f := driver.Filter{Resource: ref.Resource, LockID: ref.LockID}
	h, err := s.forcer().find(ctx, f, func(h driver.Status) bool { return h.HoldID == ref.HoldID })
	return !h.Renewed.IsZero(), err
}

// sendCleanUp releases what clean-ups are for.
func (s *Server) sendCleanUp(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.StoreTimeout)
	defer cancel()
	sent := time.Now()
	results, err := s.store.Release(ctx, qs)
	s.observe(s.scope.Life, "release", time.Since(sent), ofBatch(results, err, releaseErr))
	return results, err
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

// Ready reports whether /readyz answers 200: the store was prepared, is still the same as far as
// it answered, and the server does not end.
func (s *Server) Ready() bool { return !s.draining.Load() && s.identity.ready() }

// Drain makes /readyz fail, so that balancers send no more requests. All else goes on.
func (s *Server) Drain() {
	s.draining.Store(true)
	s.opts.Health.Ending()
}

// EndWaits ends waits and watches, so that their callers go to another server, and does
// Drain. New waits and watches are refused; everything else is served as before. An attempt
// that is on its way to the store is awaited: a caller that it grants is told so.
func (s *Server) EndWaits() {
	s.Drain()
	s.endWaits()
	s.lines.Close()
}

// closePatience is how long Close takes at most, and cleanClosing how long of that it
// releases.
const (
	closePatience = 5 * time.Second
	cleanClosing  = 3 * time.Second
)

// Close ends what the server does in the background. It waits a moment for the releases of
// holds whose callers have hung up, and closes no connection: end them before.
func (s *Server) Close() error {
	s.EndWaits()
	if s.scope.Close() {
		s.cleaner.Close(s.scope.Clock() + cleanClosing)
		s.scope.End()
		s.scope.Leave()
	}
	select {
	case <-s.scope.Idle:
	case <-time.After(closePatience): // the store does not return
	}
	s.failures.close()
	if n := s.cleaner.Len(); n > 0 {
		s.opts.Logger.Warn("holdfast server: holds are left to their TTLs", "count", n)
	}
	return nil
}
