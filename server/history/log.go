package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// queued is how many changes may wait to be written: some seconds of a busy server. A look
	// waits while half of it is full.
	queued = 8192
	// batched is how many changes are written at once.
	batched = 1000
	// retryAfter is the pause after a failure of the storage.
	retryAfter = time.Second
	// readPatience is how long a read may take.
	readPatience = 5 * time.Second
	// slow is how long a call of the storage takes until it counts as one that hangs.
	slow = 5 * time.Second
	// tidyEvery is the longest time between two calls of Write. A gap may begin that much too
	// early after a crash.
	tidyEvery = 10 * time.Second
	// closing is how long Close waits for the storage, and closingMore how long for it to
	// notice that.
	closing, closingMore = 2 * time.Second, 500 * time.Millisecond
)

// Options change what New makes. The zero value of each is its default.
type Options struct {
	// Name is that of the server, for those who read the history. Default: the host's name.
	Name string
	// Logger is told once when the storage begins to fail, and once when that is over.
	// Default: nothing is logged.
	Logger *slog.Logger
}

// Log keeps a history. All methods may be called concurrently.
type Log struct {
	storage Storage
	log     *slog.Logger

	life context.Context // of what reads and writes
	stop context.CancelFunc
	// watching ends with Close, at once, and is the context of what looks.
	watching context.Context
	unwatch  context.CancelFunc
	written  chan struct{} // closed when the goroutine that writes has ended
	wake     chan struct{} // there is something to write
	room     chan struct{} // something was written
	looking  sync.WaitGroup
	opened   time.Time

	mu      sync.Mutex
	queue   []Hold
	known   map[key]*known
	forgot  time.Time // when some were forgotten that had ended
	number  int64     // the last
	looks   looks
	state   State
	lossy   bool      // changes were dropped since the storage was last written
	writing time.Time // when the call of the storage that is under way began
}

// New returns a Log with that storage, which it closes, also if there is an error. ctx bounds
// New alone.
func New(ctx context.Context, storage Storage, opts *Options) (*Log, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	saved, err := storage.Load(ctx)
	if err != nil {
		_ = storage.Close()
		return nil, err
	}
	l := &Log{
		storage: storage, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)),
		written: make(chan struct{}),
		wake:    make(chan struct{}, 1), room: make(chan struct{}, 1),
		opened: time.Now(), known: make(map[key]*known, len(saved.Open)), number: saved.Last,
		looks: looks{whole: saved.Looked, gaps: saved.Gaps},
		state: State{Name: o.Name, Bounds: saved.Bounds},
	}
	if l.state.Name == "" {
		l.state.Name, _ = os.Hostname() // without one it has no name
	}
	for _, h := range saved.Open[:min(len(saved.Open), mostKnown)] {
		is := &known{Hold: h, alive: h.Began.After}
		if saved.Looked.After(is.alive) && saved.Looked.Before(l.opened) {
			is.alive = saved.Looked
		}
		l.known[key{h.Resource, h.Hash}] = is
	}
	l.life, l.stop = context.WithCancel(context.Background())
	l.watching, l.unwatch = context.WithCancel(l.life)
	go l.write()
	return l, nil
}

// State returns how well the history is kept. It does not wait for the storage.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	if !l.writing.IsZero() && time.Since(l.writing) >= slow && s.Err == nil {
		s.Err, s.Failing = ErrSlow, l.writing
	}
	if g, is := l.gap(time.Now()); is && s.Looks {
		s.Gaps = append(s.Gaps, Gap{From: g.From})
	}
	for _, g := range l.looks.gaps {
		if g.To.After(s.Since) {
			s.Gaps = append(s.Gaps, g)
		}
	}
	return s
}

// Close writes what was noted before and closes the storage. It waits for a storage that does
// not answer for two seconds; what is not written by then is dropped, and the storage is closed
// once it answers. The Looker of Follow has to be closed later, or not at all.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed() {
		l.mu.Unlock()
		<-l.written
		return nil
	}
	l.unwatch()
	l.mu.Unlock()
	l.looking.Wait()
	closed := make(chan error, 1)
	go func() { // to close it while it hangs would hang as well
		<-l.written
		closed <- l.storage.Close()
	}()
	var err error
	patience := time.AfterFunc(closing, l.stop)
	defer patience.Stop()
	select {
	case err = <-closed:
	case <-time.After(closing + closingMore):
		err = ErrSlow
	}
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(len(l.queue))
	return cmp.Or(l.state.Err, err)
}

// closed reports whether Close was called.
func (l *Log) closed() bool { return l.watching.Err() != nil }

// push puts the hold into the queue. It reports false if that is full. l.mu is held.
func (l *Log) push(h Hold) bool {
	if l.closed() || len(l.queue) == queued {
		l.drop(1)
		return false
	}
	l.queue = append(l.queue, h)
	notify(l.wake)
	return true
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// drop counts changes that are not kept, and logs the first. l.mu is held.
func (l *Log) drop(n int) {
	l.state.Dropped += uint64(n)
	if n > 0 && !l.lossy && !l.closed() {
		l.lossy = true
		go l.log.Error("holdfast history: changes are dropped, because the storage does not keep up or does not answer; locks go on")
	}
}

// write writes until the Log is closed and nothing is left, or nobody waits for it.
func (l *Log) write() {
	defer close(l.written)
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	for due, last := false, false; ; {
		b := l.next()
		switch {
		case !due && len(b.Holds) == 0 && last:
			return
		case !due && len(b.Holds) == 0:
			select {
			case <-l.wake:
			case <-tidy.C:
				due = true
			case <-l.watching.Done():
				due, last = true, true
			}
			continue
		}
		if due = !l.keep(b); due { // again, after a rest
			select {
			case <-time.After(retryAfter):
			case <-l.life.Done():
				return
			}
		}
	}
}

// next returns what is to be written. The oldest holds of the queue stay there until they are.
func (l *Log) next() Batch {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := min(len(l.queue), batched)
	b := Batch{Holds: slices.Clone(l.queue[:n]), Gaps: l.looks.gaps}
	if n == len(l.queue) {
		b.Looked = l.looks.whole
	}
	return b
}

// keep writes a batch. It reports whether that was so.
func (l *Log) keep(b Batch) bool {
	began := time.Now()
	l.mu.Lock()
	l.writing = began
	l.mu.Unlock()
	tell := func(err error) {
		l.log.Error("holdfast history: the storage cannot be written, trying again; locks go on", "error", err)
	}
	hangs := time.AfterFunc(slow, func() { tell(ErrSlow) })
	bounds, err := l.storage.Write(l.life, b)
	hangs.Stop()

	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil && l.life.Err() != nil { // Close waits no longer, and has ended the call by that
		err = cmp.Or(l.state.Err, ErrSlow)
	}
	failed := l.state.Err != nil || time.Since(began) >= slow
	l.writing = time.Time{}
	switch {
	case err == nil:
		l.queue = l.queue[len(b.Holds):]
		l.state.Noted += uint64(len(b.Holds))
		l.state.Err, l.state.Failing, l.state.Bounds, l.lossy = nil, time.Time{}, bounds, false
		notify(l.room)
		if failed {
			go l.log.Info("holdfast history: the storage is written again", "dropped", l.state.Dropped) // it may hang as well
		}
	case l.state.Err == nil:
		l.state.Failing = began
		if !failed {
			go tell(err)
		}
		fallthrough
	default:
		l.state.Err = err
	}
	return err == nil
}

// Holds returns those that the query chooses, the newest first.
func (l *Log) Holds(ctx context.Context, q Query) ([]Hold, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, readPatience, ErrSlow)
	defer cancel()
	type result struct {
		holds []Hold
		err   error
	}
	done := make(chan result, 1)
	go func() { // a disk may hang
		holds, err := l.storage.Holds(ctx, q)
		done <- result{holds, err}
	}()
	select {
	case r := <-done:
		return r.holds, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ErrSlow says that the storage does not answer.
var ErrSlow = errors.New("holdfast history: its storage does not answer")
