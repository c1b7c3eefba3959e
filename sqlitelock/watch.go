package sqlitelock

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/driver/wake"
)

// How often the goroutine looks at the file. A look that finds no change costs some 5 µs,
// but waking up for it costs many times that (measured). So it looks less often the
// longer nothing happens, and very seldom if the system reports changes.
const (
	minLook = 5 * time.Millisecond
	maxLook = 40 * time.Millisecond
	slower  = 32 // each look that finds no change lengthens the pause by this part of it
	share   = 20 // looks at a constantly changing file take at most this part of the time
	// maxPause bounds that: a look also takes long while other programs use the
	// processor.
	maxPause = 250 * time.Millisecond
	// quiet is how long to look often after a change, or after the system reported one:
	// it reports a write to the log before the commit can be seen.
	quiet = time.Second
	// retryAfter is how long to wait after the file could not be read.
	retryAfter = time.Second
)

// watcher signals releases, also those by other processes. While there are subscribers,
// one goroutine reads the file's data version, and after a change the freed column of the
// watched resources. It signals a resource if freed rose.
//
// The goroutine reads the data version first, then the list of watched resources, then
// their freed. A commit in between is seen at once, or changes the data version that is
// read next. So no commit is missed. If the file cannot be read, the goroutine retries,
// while waiters poll.
type watcher struct {
	hub wake.Hub

	mu      sync.Mutex
	freed   map[string]model.Time // of watched resources, as last read
	running bool

	version int64 // of the data that the goroutine last read
}

// Watch implements driver.Watcher. It subscribes before it reads freed. A release that is
// committed after Watch has returned raises freed above that value. The goroutine sees
// it, because its list then has the resource.
func (s *store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	w := &s.watcher
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	ch := w.hub.Subscribe(ctx, resource)
	if err := s.read(ctx, func(c *conn) error { return w.look(c, []string{resource}) }); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if s.ctx.Err() == nil && !w.running {
		w.running, w.version = true, -1
		s.background.Go(s.watch)
	}
	return ch, nil
}

// hasSubscribers reports whether there are subscribers. If not, the goroutine ends.
func (w *watcher) hasSubscribers() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running = len(w.hub.Resources()) > 0; !w.running {
		clear(w.freed)
	}
	return w.running
}

// watched returns the watched resources, and forgets the others. It cannot forget a
// resource that Watch has just noted, because Watch subscribes first.
func (w *watcher) watched() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	names := w.hub.Resources()
	freed := make(map[string]model.Time, len(names))
	for _, name := range names {
		if was, noted := w.freed[name]; noted {
			freed[name] = was
		}
	}
	w.freed = freed
	return names
}

// look notes freed of the resources. A resource without a record has no row.
func (w *watcher) look(c *conn, names []string) error {
	err := c.query(freedSQL, func(row []driver.Value) error {
		resource, _ := row[0].(string)
		freed, _ := row[1].(int64)
		w.note(resource, model.Time(freed), true)
		return nil
	}, jsonArray(names))
	for _, name := range names {
		w.note(name, 0, err == nil)
	}
	return err
}

// note stores freed of a resource, and signals if it rose. A resource that was not noted
// before is stored only if it is watched.
func (w *watcher) note(resource string, freed model.Time, watched bool) {
	w.mu.Lock()
	was, noted := w.freed[resource]
	rose := noted && freed > was
	if rose || !noted && watched {
		w.freed[resource] = freed
	}
	w.mu.Unlock()
	if rose {
		w.hub.Signal(resource)
	}
}

// jsonArray returns a list in JSON, for one parameter of a statement.
func jsonArray(names []string) string {
	text, err := json.Marshal(names)
	if err != nil {
		panic("sqlitelock: strings that JSON cannot write: " + err.Error()) // there are none
	}
	return string(text)
}

// watch looks at the file until there are no subscribers or the store is closed.
func (s *store) watch() {
	silent := time.Duration(0) // how long looks have found nothing
	for wait := minLook; s.pause(s.ctx, wait) == nil && s.watcher.hasSubscribers(); {
		start := time.Now()
		switch changed, err := s.poll(); {
		case err != nil:
			wait = retryAfter
		case changed:
			wait, silent = min(max(minLook, share*time.Since(start)), maxPause), 0
		case silent < quiet:
			wait = min(wait+wait/slower, maxLook)
			silent += wait
		case s.rest():
			wait, silent = minLook, 0
		}
	}
}

// poll looks at the resources if the data has changed since the last poll.
func (s *store) poll() (changed bool, err error) {
	w := &s.watcher
	err = s.read(s.ctx, func(c *conn) error {
		var version int64
		if err := c.integers(dataVersionSQL, nil, &version); err != nil || version == w.version {
			return err
		}
		if err := w.look(c, w.watched()); err != nil {
			return err
		}
		w.version, changed = version, true
		return nil
	})
	return changed, err
}

// rest waits until a process writes, but at most for sys.restLook, and reports whether
// one did. If the system cannot report it, rest returns at once.
func (s *store) rest() (written bool) {
	if s.sys.listen == nil {
		return false
	}
	events, err := s.sys.listen(s.file.path + "-wal")
	if err != nil {
		return false
	}
	defer events.Close()
	if changed, err := s.poll(); changed || err != nil { // a change before listen returned
		return true
	}
	s.reach(pointRest)
	if err := events.SetReadDeadline(time.Now().Add(s.sys.restLook)); err != nil {
		return false
	}
	defer context.AfterFunc(s.ctx, func() { _ = events.SetReadDeadline(time.Now()) })()
	_, err = events.Read(make([]byte, 64))
	return !errors.Is(err, os.ErrDeadlineExceeded)
}
