package history

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// queued is how many events of the server's own calls may wait to be written: some seconds
	// of a busy server. Those of looks are bounded by what a look shows.
	queued = 8192
	// batched is how many events are written at once.
	batched = 1000
	// retryFirst and retryLimit are the pauses after a failure of the storage.
	retryFirst, retryLimit = 100 * time.Millisecond, 5 * time.Second
	// slow is how long a call of the storage takes until it counts as one that hangs.
	slow = 5 * time.Second
	// tidyEvery is the longest time between two calls of Append.
	tidyEvery = 10 * time.Minute
	// closing is how long Close waits for the storage, and closingMore how long for it to
	// notice that nobody waits any more.
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
	name    string
	log     *slog.Logger

	life context.Context // of what reads and writes
	end  context.CancelFunc
	// watching ends with Close, at once, and is the context of what looks.
	watching context.Context
	unwatch  context.CancelFunc
	written  chan struct{} // closed when the goroutine that writes has ended
	wake     chan struct{} // there is something to write
	room     chan struct{} // nothing of a look waits to be written
	readers  chan struct{} // what reads the storage
	looking  sync.WaitGroup

	mu      sync.Mutex
	queue   []item
	looks   int // events of looks in the queue
	holds   holds
	since   time.Time
	noted   uint64
	dropped uint64
	lossy   bool // events were dropped since the storage was last written
	err     error
	failing time.Time
	sees    sees
	gaps    gaps
}

// item is an event that waits to be written.
type item struct {
	Event
	look bool
}

// New returns a Log with that storage, which it closes, also if there is an error. ctx bounds
// New alone.
func New(ctx context.Context, storage Storage, opts *Options) (*Log, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	l := &Log{
		storage: storage, name: o.Name, log: o.Logger,
		written: make(chan struct{}),
		wake:    make(chan struct{}, 1), room: make(chan struct{}, 1), readers: make(chan struct{}, maxReaders),
	}
	if l.name == "" {
		l.name, _ = os.Hostname() // without one it has no name
	}
	l.log = cmp.Or(l.log, slog.New(slog.DiscardHandler))
	since, err := storage.Append(ctx, nil)
	var open []Open
	if err == nil {
		open, err = storage.Open(ctx)
	}
	if err == nil {
		err = l.gaps.open(ctx, storage, time.Now())
	}
	if err != nil {
		_ = storage.Close()
		return nil, err
	}
	l.since = since
	l.holds.init(open)
	l.life, l.end = context.WithCancel(context.Background())
	l.watching, l.unwatch = context.WithCancel(l.life)
	go l.write()
	return l, nil
}

// State returns how well the history is kept. It does not wait for the storage.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return State{
		Name: l.name, Since: l.since, Noted: l.noted, Dropped: l.dropped, Err: l.err, Failing: l.failing,
		Looks: l.sees.on, Period: l.sees.period, Cut: l.sees.cut, LooksFail: l.sees.err, Gaps: l.shown(l.since),
	}
}

// Close writes what was noted before and closes the storage. It waits for a storage that does
// not answer for two seconds; what is not written by then is dropped, and the storage is closed
// once it answers. The Looker of
// Follow has to be closed later, or not at all.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed() {
		l.mu.Unlock()
		<-l.written
		return nil
	}
	l.noteLosses()
	l.unwatch()
	l.mu.Unlock()
	l.looking.Wait()
	timer := time.AfterFunc(closing, l.end)
	defer timer.Stop()
	select {
	case <-l.written:
	case <-l.life.Done():
	}
	l.end()
	hangs := time.NewTimer(closingMore)
	defer hangs.Stop()
	select {
	case <-l.written:
	case <-hangs.C:
		// To close it now would hang as well.
		go func() {
			<-l.written
			_ = l.storage.Close()
		}()
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dropRest()
		return cmp.Or(l.err, ErrSlow)
	}
	l.waitForReaders(hangs.C)
	err := l.storage.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropRest()
	return cmp.Or(l.err, err)
}

// closed reports whether Close was called.
func (l *Log) closed() bool { return l.watching.Err() != nil }

// push puts the event into the queue, unless it is full. l.mu is held.
func (l *Log) push(e Event, look bool) {
	if l.closed() || !look && len(l.queue)-l.looks == queued {
		l.drop(1)
		return
	}
	if look {
		l.looks++
	}
	l.queue = append(l.queue, item{e, look})
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// drop counts events that are not kept, and logs the first. l.mu is held.
func (l *Log) drop(n int) {
	l.dropped += uint64(n)
	if !l.lossy && !l.closed() {
		l.lossy = true
		go l.log.Error("holdfast history: events are dropped, because the storage does not keep up or does not answer; locks go on")
	}
}

// dropRest drops what was not written. l.mu is held.
func (l *Log) dropRest() {
	if n := len(l.queue); n > 0 {
		l.drop(n)
		l.queue, l.looks = nil, 0
	}
}

// write writes events until the Log is closed and nothing is left, or nobody waits for it.
func (l *Log) write() {
	defer close(l.written)
	tidy := time.NewTicker(tidyEvery)
	defer tidy.Stop()
	seeing := time.NewTicker(untilEvery)
	defer seeing.Stop()
	defer l.keepGaps(true)
	for {
		l.keepGaps(false)
		batch := l.next()
		if len(batch) == 0 {
			select {
			case <-l.wake:
				continue
			case <-seeing.C:
				if !l.fails() { // else a call of Append shows whether it still does
					continue
				}
			case <-tidy.C:
			case <-l.watching.Done():
				if batch = l.next(); len(batch) == 0 {
					return
				}
			}
		}
		if !l.append(batch) {
			return
		}
	}
}

func (l *Log) fails() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err != nil
}

// next returns the oldest events of the queue, which stay there until they are written.
func (l *Log) next() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch := make([]Event, min(len(l.queue), batched))
	for i := range batch {
		batch[i] = l.queue[i].Event
	}
	return batch
}

// append writes the first events of the queue, and tries that again and again. It reports
// whether it succeeded: if not, the Log is closed.
func (l *Log) append(batch []Event) bool {
	for pause := retryFirst; ; pause = min(2*pause, retryLimit) {
		began := time.Now()
		watch := time.AfterFunc(slow, func() { l.failed(began, ErrSlow) })
		since, err := l.storage.Append(l.life, batch)
		watch.Stop()
		if err == nil {
			l.succeeded(len(batch), since)
			return true
		}
		l.failed(began, err)
		rest := time.NewTimer(pause)
		select {
		case <-rest.C:
		case <-l.watching.Done(): // it may try until Close no longer waits
			rest.Reset(retryFirst)
			select {
			case <-rest.C:
			case <-l.life.Done():
				rest.Stop()
				return false
			}
		}
		if len(batch) == 0 {
			return true
		}
	}
}

func (l *Log) succeeded(n int, since time.Time) {
	l.mu.Lock()
	failed, dropped := l.err != nil, l.dropped
	defer func() {
		l.mu.Unlock()
		if failed { // not before: the log may hang as well
			l.log.Info("holdfast history: the storage is written again", "dropped", dropped)
		}
	}()
	if len(l.queue) < n { // Close did not wait for it any longer, and has counted the events
		return
	}
	l.err, l.failing, l.lossy, l.since = nil, time.Time{}, false, since
	l.noted += uint64(n)
	for _, it := range l.queue[:n] {
		if it.look {
			l.looks--
		}
	}
	if l.queue = l.queue[n:]; len(l.queue) == 0 {
		l.queue = nil
	}
	if l.looks == 0 {
		select {
		case l.room <- struct{}{}:
		default:
		}
	}
}

// failed notes that a call of the storage fails that began then.
func (l *Log) failed(began time.Time, err error) {
	l.mu.Lock()
	first := l.err == nil
	switch {
	case l.life.Err() == nil:
		l.err = err
	case first: // Close waits no longer, and has ended the call by that
		l.err = ErrSlow
	}
	if first {
		l.failing = began
	}
	l.mu.Unlock()
	if first {
		l.log.Error("holdfast history: the storage cannot be written, trying again; locks go on", "error", err)
	}
}

// note notes that a hold has ended, by e.At at the latest.
func (l *Log) note(h driver.HoldRef, e Event) {
	if h.HoldID.IsZero() {
		return
	}
	e.Resource, e.Ref, e.Hash, e.Token = h.Resource, wire.RefOf(h.HoldID), hashOf(h.HoldID), h.Token
	e.Held, e.RenewedAgo = driver.Unknown, driver.Unknown
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Kind == Lost && (!l.holds.isOf(e.key(), h.LockID) || l.lostLater(e)) {
		return
	}
	for _, news := range l.holds.end(&e) {
		l.push(news, false)
	}
}

// Granted notes that the server has granted the hold. The Log needs its Resource, LockID, HoldID,
// Mode, Limit, Token, Details and Left. A grant that was repeated is noted once.
func (l *Log) Granted(h driver.Status) {
	now := time.Now()
	e := beginning(Granted, now, h)
	e.Held, e.RenewedAgo = 0, driver.Unknown
	l.mu.Lock()
	defer l.mu.Unlock()
	before, fresh := l.holds.begin(e, h.LockID, now)
	for _, b := range before {
		l.push(b, false)
	}
	if fresh {
		l.push(e, false)
	}
}

// Renewed notes a renewal that was sent to the store then, and how long the hold has left now.
// It is no event.
func (l *Log) Renewed(h driver.HoldRef, sent time.Time, left time.Duration) {
	k, now := key{h.Resource, hashOf(h.HoldID)}, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holds.renew(k, sent, left, now)
}

// Lost notes that a renewal has found no such hold. Only the end of a hold that the history
// knows is noted, and once. A renewal with another lock ID than the hold's has found none
// because of that.
func (l *Log) Lost(h driver.HoldRef) { l.note(h, Event{Kind: Lost, At: time.Now()}) }

// Released notes that the holder has released the hold, by a request that was sent to the store
// then. When the answer comes, another may have been granted the resource elsewhere.
func (l *Log) Released(h driver.HoldRef, sent time.Time) {
	l.note(h, Event{Kind: Released, At: sent})
}

// Forced notes that the caller has released the hold by force, and why, as Released does.
func (l *Log) Forced(h driver.HoldRef, sent time.Time, caller, reason string) {
	l.note(h, Event{Kind: Forced, At: sent, Caller: caller, Reason: reason})
}

// Errors of what reads a history.
var (
	// ErrSlow says that the storage does not answer.
	ErrSlow = errors.New("holdfast history: its storage does not answer")
	// ErrClosed says that the Log was closed.
	ErrClosed = errors.New("holdfast history: it was closed")
)
