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
	// retryFirst and retryLimit are the pauses after a failure of the storage.
	retryFirst, retryLimit = 100 * time.Millisecond, time.Second
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
	readers  chan struct{} // what reads the storage
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
		wake:    make(chan struct{}, 1), room: make(chan struct{}, 1), readers: make(chan struct{}, maxReaders),
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
	for last := false; ; {
		b := l.next()
		if len(b.Holds) == 0 {
			if last {
				return
			}
			select {
			case <-l.wake:
				continue
			case <-tidy.C:
			case <-l.watching.Done():
				last, b = true, l.next()
			}
		}
		if !l.keep(b) {
			return
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

// keep writes a batch, and tries that again and again. It reports false if nobody waits for it
// any more.
func (l *Log) keep(b Batch) bool {
	for pause := retryFirst; ; pause = min(2*pause, retryLimit) {
		l.mu.Lock()
		l.writing = time.Now()
		l.mu.Unlock()
		hangs := time.AfterFunc(slow, func() { l.tell(ErrSlow) })
		bounds, err := l.storage.Write(l.life, b)
		hangs.Stop()
		if l.wrote(len(b.Holds), bounds, err) {
			return true
		}
		select {
		case <-time.After(pause):
		case <-l.life.Done():
			return false
		}
	}
}

func (l *Log) tell(err error) {
	l.log.Error("holdfast history: the storage cannot be written, trying again; locks go on", "error", err)
}

// wrote notes what became of a call of the storage.
func (l *Log) wrote(n int, bounds Bounds, err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, began := l.state.Err, l.writing
	l.writing = time.Time{}
	switch {
	case err == nil:
		l.queue = l.queue[n:]
		l.state.Noted += uint64(n)
		l.state.Err, l.state.Failing, l.state.Bounds, l.lossy = nil, time.Time{}, bounds, false
		notify(l.room)
		if before != nil || time.Since(began) >= slow {
			go l.log.Info("holdfast history: the storage is written again", "dropped", l.state.Dropped)
		}
	case l.life.Err() != nil: // Close waits no longer, and has ended the call by that
		l.state.Err = cmp.Or(before, ErrSlow)
	default:
		l.state.Err = err
		if before == nil {
			l.state.Failing = began
			go l.tell(err) // the log may hang as well
		}
	}
	return err == nil
}

// ErrSlow says that the storage does not answer.
var ErrSlow = errors.New("holdfast history: its storage does not answer")
