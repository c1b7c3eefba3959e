package mongolock

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver/wake"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// How long to wait before a stream that failed is opened again.
const (
	minReopen = 50 * time.Millisecond
	maxReopen = 10 * time.Second
)

// releases are the changes that may let somebody in. freed is set by Holdfast's
// releases and sweeps. A change without touched is an old client's, of whatever
// kind. A server may report a change as the whole document, in which freed equals
// touched then.
var releases = mongo.Pipeline{
	obj("$match", obj("$or", bson.A{
		obj("operationType", "update", "$or", bson.A{
			obj("updateDescription.updatedFields."+freedField, obj("$exists", true)),
			obj("updateDescription.updatedFields."+touchedField, obj("$exists", false)),
		}),
		obj("operationType", "replace", "$expr", eq("$fullDocument."+freedField, "$fullDocument."+touchedField)),
	})),
	obj("$project", obj("operationType", 1, "fullDocument."+resourceField, 1)),
}

// watcher signals releases, by one stream for all who wait. The stream is opened
// when the first of them comes, and again when it has died: all are signalled
// then, for nobody knows what they missed.
type watcher struct {
	coll *mongo.Collection
	log  *slog.Logger
	hub  wake.Hub

	ctx    context.Context // of the goroutine, which ends with the store
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu      sync.Mutex
	opening *opening // the last one; nil: the stream was never asked for
	closed  bool
}

// opening is one try to open the stream.
type opening struct {
	over chan struct{} // closed when err is set
	err  error
}

func newWatcher(coll *mongo.Collection, log *slog.Logger) *watcher {
	w := &watcher{coll: coll, log: log}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// watch subscribes before it waits for the stream, so that nothing is missed.
func (w *watcher) watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	ch := w.hub.Subscribe(ctx, resource)
	o := w.start()
	if o == nil {
		return ch, nil // closed, and so is the channel
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

func (w *watcher) start() *opening {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil
	}
	if w.opening == nil {
		w.opening = &opening{over: make(chan struct{})}
		w.done.Go(w.run)
	}
	return w.opening
}

// run keeps the stream open until the store is closed.
func (w *watcher) run() {
	wait := minReopen
	for first := true; ; first = false {
		stream, err := w.open(w.ctx)
		w.opened(err)
		if err == nil {
			wait = minReopen
			if !first {
				w.log.Info("holdfast: change stream is open again")
				w.hub.SignalAll()
			}
			err = w.follow(stream)
		}
		if w.ctx.Err() != nil {
			return
		}
		w.log.Warn("holdfast: change stream failed, waiters poll until it is open again", "error", err)
		w.mu.Lock()
		w.opening = &opening{over: make(chan struct{})}
		w.mu.Unlock()
		if mongokit.Pause(w.ctx, wait/2+rand.N(wait)) != nil {
			w.opened(w.ctx.Err())
			return
		}
		wait = min(2*wait, maxReopen)
	}
}

func (w *watcher) opened(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opening.err = err
	close(w.opening.over)
}

// open returns when the server follows what is written from then on.
func (w *watcher) open(ctx context.Context) (*mongo.ChangeStream, error) {
	return w.coll.Watch(ctx, releases, options.ChangeStream().SetFullDocument(options.UpdateLookup))
}

// follow signals until the stream ends.
func (w *watcher) follow(stream *mongo.ChangeStream) error {
	defer stream.Close(context.WithoutCancel(w.ctx))
	for stream.Next(w.ctx) {
		if resource, ok := stream.Current.Lookup("fullDocument", resourceField).StringValueOK(); ok {
			w.hub.Signal(resource)
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return errors.New("the server ended it")
}

func (w *watcher) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	w.done.Wait()
	w.hub.Close()
}

// chooseWakeUps tries whether there are change streams: a server that is alone
// has none, nor has a user without the right.
func (s *Store) chooseWakeUps(ctx context.Context) error {
	if s.polls.Load() {
		s.log.Info("holdfast: waiters poll, as configured")
		return nil
	}
	stream, err := s.watcher.open(ctx)
	if err == nil {
		s.log.Info("holdfast: waiters are woken by a change stream")
		return s.coll.Wrap(stream.Close(context.WithoutCancel(ctx)))
	}
	if mongokit.Passes(err) || mongokit.HasCode(err, mongokit.CodeAuthenticationFailed) {
		return s.coll.Wrap(err)
	}
	s.polls.Store(true)
	s.log.Info("holdfast: waiters poll, for there are no change streams", "error", err)
	return nil
}
