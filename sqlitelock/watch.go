package sqlitelock

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"maps"
	"slices"
	"sync"

	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/driver/wake"
)

// watcher signals releases, also those of other processes. While anybody
// watches, one goroutine reads the file's data version, and after a change the
// freed column of the watched resources: a resource is signalled if it rose.
//
// The goroutine's order is: data version, then which resources are watched, then
// their freed. So a commit in between is seen at once and a second time, and one
// to a resource that was not yet among them is after the data version and seen
// the next time: none is missed. If the file cannot be read it goes on trying:
// watchers have a back-off of their own and lose no more than that.
type watcher struct {
	store *store
	dial  func() (*conn, error)
	hub   wake.Hub

	mu      sync.Mutex
	watched map[string]*baseline
	names   string // of the watched resources, as JSON; "" when they changed
	running bool
	closed  bool
	stop    chan struct{}
	done    sync.WaitGroup

	// Of the goroutine, and of the next one when there is none.
	conn    *conn // nil: not open
	version int64 // of the data that was last looked at on conn
	pace    pace
	hints   *hints // nil: there are none; set with mu held, for close
}

const noVersion = -1

// baseline is what is known of a watched resource.
type baseline struct {
	watchers int
	freed    model.Time // unread until it was read
}

const unread model.Time = -1

func newWatcher(s *store, dial func() (*conn, error)) *watcher {
	return &watcher{store: s, dial: dial, watched: make(map[string]*baseline), stop: make(chan struct{})}
}

// Watch implements driver.Watcher.
func (s *store) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	return s.watcher.watch(ctx, resource)
}

// watch registers the resource with the goroutine before it reads the baseline,
// and subscribes after. Whatever is committed after it returned is above the
// baseline, and the goroutine looks at the resource after it.
func (w *watcher) watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !w.add(resource) {
		return nil, w.store.wrap(errClosed)
	}
	one := jsonArray([]string{resource})
	if err := w.store.read(ctx, func(c *conn) error { return w.look(c, one) }); err != nil {
		w.remove(resource)
		return nil, err
	}
	w.freed(resource, 0) // a resource without a record was not in the answer
	ch := w.hub.Subscribe(ctx, resource)
	context.AfterFunc(ctx, func() { w.remove(resource) })
	return ch, nil
}

// add returns false if the watcher is closed.
func (w *watcher) add(resource string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	b := w.watched[resource]
	if b == nil {
		b = &baseline{freed: unread}
		w.watched[resource] = b
		w.names = ""
	}
	b.watchers++
	if !w.running {
		w.running = true
		w.done.Go(w.run)
	}
	return true
}

func (w *watcher) remove(resource string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.watched[resource]
	if b.watchers--; b.watchers == 0 {
		delete(w.watched, resource)
		w.names = ""
	}
}

// freed takes note of a value of freed, and signals if it is news.
func (w *watcher) freed(resource string, freed model.Time) {
	w.mu.Lock()
	b := w.watched[resource]
	news := b != nil && freed > b.freed
	signal := news && b.freed != unread
	if news {
		b.freed = freed
	}
	w.mu.Unlock()
	if signal {
		w.hub.Signal(resource)
	}
}

// look reads freed of the resources named in a JSON array.
func (w *watcher) look(c *conn, names string) error {
	return c.query(freedSQL, func(row []driver.Value) error {
		resource, _ := row[0].(string)
		var freed int64
		if err := integers(row[1:], &freed); err != nil {
			return err
		}
		w.freed(resource, model.Time(freed))
		return nil
	}, names)
}

// jsonArray is how a list is bound to one parameter.
func jsonArray(names []string) string {
	text, err := json.Marshal(names)
	if err != nil {
		panic("sqlitelock: strings that JSON cannot write: " + err.Error()) // there are none
	}
	return string(text)
}

// ends reports that nobody watches, and then takes note that the goroutine ends.
func (w *watcher) ends() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running = len(w.watched) > 0
	return !w.running
}

// watchedNames returns the watched resources as a JSON array.
func (w *watcher) watchedNames() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.names == "" {
		w.names = jsonArray(slices.Collect(maps.Keys(w.watched)))
	}
	return w.names
}

// close ends the goroutine and closes the channels. It is called once.
func (w *watcher) close() error {
	w.mu.Lock()
	w.closed = true
	close(w.stop)
	if w.hints != nil {
		_ = w.hints.interrupt() // it fails if nobody can be waiting
	}
	w.mu.Unlock()
	w.done.Wait()
	w.hub.Close()
	return w.hangUp()
}
