package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// queued is how many notes may wait: some seconds of a busy server.
	queued = 8192
	// batched is how many holds are written at once.
	batched = 1000
	// retryAfter is the pause after a failure of the storage.
	retryAfter = time.Second
	// slow is how long a call of the storage takes until it counts as one that hangs.
	slow = 5 * time.Second
	// tidyEvery is the longest time between two calls of Write. A gap may begin that much too
	// early after a crash.
	tidyEvery = 10 * time.Second
	// closing is how long Close waits for the storage, and closingMore how long for it to
	// notice that.
	closing, closingMore = 2 * time.Second, 500 * time.Millisecond
)

// ErrSlow says that the storage does not answer.
var ErrSlow = errors.New("holdfast history: its storage does not answer")

// Options change what New makes. The zero value of each is its default.
type Options struct {
	// Name is that of the server, for those who read the history. Default: the host's name.
	Name string
	// Logger is told once when the storage begins to fail, and once when that is over.
	// Default: nothing is logged.
	Logger *slog.Logger
}

// Log keeps a history. All methods may be called concurrently.
//
// Calls and looks put notes into a queue, and never wait for a lock or the storage. One goroutine
// takes the notes out, changes what is known, and writes what has changed to the storage.
type Log struct {
	storage Storage
	log     *slog.Logger

	life     context.Context // of what is written
	stop     context.CancelFunc
	watching context.Context // ends with Close, at once
	unwatch  context.CancelFunc
	written  chan struct{} // closed when the goroutine that writes has ended
	looking  sync.WaitGroup
	opened   time.Time

	notes   chan func() // called with mu held
	dropped atomic.Uint64
	lossy   atomic.Bool // some were dropped since the storage was last written

	mu     sync.Mutex // of the goroutine that writes, for what State shows
	dirty  []*known   // to be written, in this order
	number int64      // the last
	known  map[key]*known
	forgot time.Time // when some were forgotten that had ended
	looks  Looks
	// usual is the time between two looks. It grows slowly: one look that hangs is a gap, also
	// because the store rests for long then. A store that is always slow is looked at rarely.
	usual time.Duration
	state State
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
		storage: storage, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), written: make(chan struct{}), notes: make(chan func(), queued),
		opened: time.Now(), known: make(map[key]*known, len(saved.Open)), number: saved.Last, looks: saved.Looks,
		state: State{Name: o.Name, Bounds: saved.Bounds},
	}
	if l.state.Name == "" {
		l.state.Name, _ = os.Hostname() // without one it has no name
	}
	for _, h := range saved.Open[:min(len(saved.Open), mostKnown)] {
		is := &known{Hold: h, alive: h.Began.After}
		if last := saved.Looks.Last; last.After(is.alive) && last.Before(l.opened) {
			is.alive = last
		}
		l.known[key{h.Resource, h.Hash}] = is
	}
	l.life, l.stop = context.WithCancel(context.Background())
	l.watching, l.unwatch = context.WithCancel(l.life)
	go l.run()
	return l, nil
}

// State returns how well the history is kept. It does not wait for the storage.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.state
	s.Dropped = l.dropped.Load()
	if g, is := l.gap(time.Now()); is && s.Looks {
		s.Gaps = append(s.Gaps, Gap{From: g.From})
	}
	for _, g := range l.looks.Gaps {
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
	again := l.watching.Err() != nil
	l.unwatch()
	l.mu.Unlock()
	if again {
		<-l.written
		return nil
	}
	l.looking.Wait()
	closed := make(chan error, 1)
	go func() { // to close it while it hangs would hang as well
		<-l.written
		closed <- l.storage.Close()
	}()
	defer time.AfterFunc(closing, l.stop).Stop()
	var err error
	select {
	case err = <-closed:
	case <-time.After(closing + closingMore):
		err = ErrSlow
	}
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropped.Add(uint64(len(l.notes) + len(l.dirty)))
	return cmp.Or(l.state.Err, err)
}

// note puts a note into the queue, which are so many beginnings and ends.
func (l *Log) note(changes uint64, note func()) {
	if l.watching.Err() == nil {
		select {
		case l.notes <- note:
			return
		default:
		}
	}
	l.drop(changes)
}

// drop counts changes that are not kept, and logs the first.
func (l *Log) drop(changes uint64) {
	l.dropped.Add(changes)
	if changes > 0 && !l.lossy.Swap(true) {
		go l.log.Error("holdfast history: changes are dropped, because the storage does not keep up or does not answer; locks go on")
	}
}

// run takes notes and writes, until the Log is closed and nothing is left, or nobody waits for it.
func (l *Log) run() {
	defer close(l.written)
	pause := tidyEvery // from the last time that something was written until the next time, at most
	due := time.NewTimer(pause)
	defer due.Stop()
	for closed := l.watching.Done(); ; {
		select {
		case note := <-l.notes:
			l.mu.Lock()
			note()
			l.mu.Unlock()
			if n := len(l.dirty); n == 0 || pause == retryAfter || n < batched && len(l.notes) > 0 {
				continue
			}
		case <-due.C:
		case <-closed:
			closed = nil
		case <-l.life.Done():
			return
		}
		pause = l.write()
		if closed == nil && pause == tidyEvery && len(l.notes) == 0 {
			return
		}
		due.Reset(pause)
	}
}

// write writes the holds that have changed, or some of them, and how far they go. It returns the
// pause until the next time.
func (l *Log) write() (pause time.Duration) {
	holds := make([]Hold, min(len(l.dirty), batched)) // this goroutine alone changes them
	for i := range holds {
		holds[i] = l.dirty[i].Hold
	}
	var looks *Looks
	if len(holds) == len(l.dirty) {
		looks = &l.looks
	}
	began, hangs := time.Now(), true
	timer := time.AfterFunc(slow, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if hangs {
			l.failed(began, ErrSlow)
		}
	})
	bounds, err := l.storage.Write(l.life, holds, looks)
	timer.Stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	hangs = false
	if err != nil {
		if l.life.Err() != nil { // Close waits no longer, and has ended the call by that
			err = cmp.Or(l.state.Err, ErrSlow)
		}
		l.failed(began, err)
		return retryAfter
	}
	if l.state.Err != nil {
		go l.log.Info("holdfast history: the storage is written again", "dropped", l.dropped.Load()) // it may hang as well
	}
	for _, h := range l.dirty[:len(holds)] {
		h.dirty = false
	}
	l.dirty = l.dirty[len(holds):]
	l.state.Noted += uint64(len(holds))
	l.state.Err, l.state.Failing, l.state.Bounds = nil, time.Time{}, bounds
	l.lossy.Store(false)
	if len(l.dirty) > 0 {
		return 0
	}
	return tidyEvery
}

// failed notes that the storage could not be written, by a call that began then. l.mu is held.
func (l *Log) failed(began time.Time, err error) {
	if l.state.Err == nil {
		l.state.Failing = began
		go l.log.Error("holdfast history: the storage cannot be written, trying again; locks go on", "error", err)
	}
	l.state.Err = err
}

// Holds returns those that the query chooses, the newest first.
func (l *Log) Holds(ctx context.Context, q Query) ([]Hold, error) {
	if q.Limit <= 0 {
		q.Limit = DefaultLimit
	}
	ctx, cancel := context.WithTimeoutCause(ctx, slow, ErrSlow)
	defer cancel()
	done := make(chan struct{})
	var holds []Hold
	var err error
	go func() { // a disk may hang
		defer close(done)
		holds, err = l.storage.Holds(ctx, q)
	}()
	select {
	case <-done:
		return holds, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
