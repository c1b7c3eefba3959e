package wake

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/tell"
)

// The pauses of a Stream after failures before it opens the stream again.
const (
	minReopen = 50 * time.Millisecond
	maxReopen = 10 * time.Second
)

// Stream is the shared part of a driver.Watcher for stores whose server sends signals over a
// stream. All watchers share one stream. It is opened for the first watcher, and again after
// a failure. All watchers then get a signal, because they may have missed some.
//
// Set the fields before the first call of a method. All methods may be called concurrently.
type Stream struct {
	// Hub has the watchers. The follow function signals them.
	Hub
	// Name is the name of the stream in the log, such as "change stream".
	Name string
	// Log gets a warning when the stream fails, and a record when it is open again. nil means
	// slog.Default(). The Stream does not wait for it.
	Log *slog.Logger
	// Open returns when the server sends all events from then on. again says that an earlier
	// stream has ended or failed to open. follow passes signals on until the stream or ctx
	// ends, frees everything, and returns the reason.
	//
	// If the error of Open is driver.ErrUnsupported, the channels are closed and Open is not
	// called again.
	Open func(ctx context.Context, again bool) (follow func() error, err error)

	logOnce sync.Once
	log     *slog.Logger // see Logger
	mu      sync.Mutex
	opening *opening // the last one; nil if there is none yet
	cancel  context.CancelFunc
	done    sync.WaitGroup
	closed  bool
}

// opening is one attempt to open the stream.
type opening struct {
	over chan struct{} // closed when err is set
	err  error
}

// Watch subscribes to the resource and returns when the stream is open or could not be
// opened. It subscribes before it waits, so it misses no signal.
func (s *Stream) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ch := s.Subscribe(ctx, resource)
	o := s.start()
	if o == nil {
		return ch, nil // the Hub is closed, and so is the channel
	}
	select {
	case <-o.over:
		if o.err != nil {
			return nil, o.err
		}
		return ch, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *Stream) start() *opening {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	if s.opening == nil {
		s.opening = &opening{over: make(chan struct{})}
		var ctx context.Context
		ctx, s.cancel = context.WithCancel(context.Background())
		s.done.Go(func() { s.run(ctx) })
	}
	return s.opening
}

// run keeps the stream open until Close.
func (s *Stream) run(ctx context.Context) {
	pauses := backoff.New(minReopen, maxReopen)
	for again := false; ; again = true {
		follow, err := s.Open(ctx, again)
		s.opened(err)
		if errors.Is(err, driver.ErrUnsupported) {
			s.Hub.Close()
			return
		}
		if err == nil {
			pauses = backoff.New(minReopen, maxReopen)
			if again {
				s.Logger().Info("holdfast: " + s.Name + " is open again")
				s.SignalAll()
			}
			err = follow()
		}
		if ctx.Err() != nil {
			return
		}
		s.Logger().Warn("holdfast: "+s.Name+" failed, waiters poll until it is open again", "error", err)
		s.mu.Lock()
		s.opening = &opening{over: make(chan struct{})}
		s.mu.Unlock()
		if err := backoff.Wait(ctx, pauses.Next()); err != nil {
			s.opened(err)
			return
		}
	}
}

// Logger returns a logger for Open and follow. It passes records on to Log and returns at
// once, so that a blocking handler delays no signal.
func (s *Stream) Logger() *slog.Logger {
	s.logOnce.Do(func() { s.log = newLog(s.Log) })
	return s.log
}

func (s *Stream) opened(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opening.err = err
	close(s.opening.over)
}

// Close ends the stream and closes all channels. It returns when all goroutines of the stream
// have ended, except a goroutine that a handler of Log blocks.
func (s *Stream) Close() {
	s.mu.Lock()
	s.closed = true
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	s.done.Wait()
	s.Hub.Close()
}

// mostLines is the largest number of log records that wait for a slow handler.
const mostLines = 100

// newLog returns a logger that passes records on to l, in order, from a goroutine of its own.
// Records are dropped while too many wait.
func newLog(l *slog.Logger) *slog.Logger {
	queue := &tell.Queue{Most: mostLines}
	return queue.Logger(cmp.Or(l, slog.Default()))
}
