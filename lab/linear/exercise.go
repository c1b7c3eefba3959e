package linear

import (
	"context"
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// The size of an exercise.
const (
	workers   = 8
	rounds    = 100
	resources = 4
	tries     = 3 // for a request without an answer
)

// Quick is the factor by which a settable clock runs faster than the machine's. At this speed,
// fair places end during an exercise, as holds do.
const Quick = 250

// Exercise lets workers acquire, renew, release and abandon short holds through several handles
// on the same data, and returns the recorded events. Times are the store's, whose clock may be
// quick. Holds are shorter if the store answers sooner, so that some end during the exercise.
func Exercise(t *testing.T, quick bool, handles ...driver.Store) []drivertest.Event {
	t.Helper()
	inStore := func(d time.Duration) time.Duration { return d }
	if quick {
		inStore = func(d time.Duration) time.Duration { return Quick * d }
	}
	unit := inStore(max(time.Millisecond, grantTime(t, handles[0])))
	start := time.Now()
	recorders := []*drivertest.Recorder{
		drivertest.NewRecorder(handles[0], func() time.Duration { return inStore(time.Since(start)) }, inStore(time.Millisecond)),
	}
	for _, h := range handles[1:] {
		recorders = append(recorders, recorders[0].Beside(h))
	}
	seed := rand.Uint64()
	t.Logf("seed %#x", seed)

	ctx, stop := context.WithCancel(t.Context())
	var sweeper, all sync.WaitGroup
	sweeper.Go(func() {
		for pace := time.Tick(5 * time.Millisecond); ctx.Err() == nil; <-pace {
			// The result does not matter: a sweep must not change anything that the workers
			// see.
			_, _ = handles[0].Sweep(ctx, driver.SweepRequest{})
		}
	})
	for i := range workers {
		w := &worker{
			store: recorders[i%len(recorders)], rnd: rand.New(rand.NewPCG(seed, uint64(i))),
			lockID: fmt.Sprint("worker ", i), pace: time.Tick(time.Millisecond), unit: unit,
			shared: handles[0].Traits().Shared, queues: handles[0].Traits().Queue, quick: quick,
		}
		all.Go(func() {
			for range rounds {
				w.round(ctx)
			}
		})
	}
	all.Wait()
	stop()
	sweeper.Wait()
	return recorders[0].Events()
}

// grantTime returns how long the store takes to grant a hold, in whole milliseconds.
func grantTime(t *testing.T, s driver.Store) time.Duration {
	t.Helper()
	var took []time.Duration
	for range 9 {
		q := driver.AcquireRequest{Resource: "trip", LockID: crand.Text(), HoldID: driver.NewHoldID(), TTL: time.Millisecond}
		began := time.Now()
		_, _ = s.Acquire(t.Context(), q) // a refusal or no answer takes as long
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2].Truncate(time.Millisecond)
}

// worker makes the requests of one lock ID.
type worker struct {
	store  *drivertest.Recorder
	rnd    *rand.Rand
	lockID string
	pace   <-chan time.Time
	unit   time.Duration // of TTLs: whole milliseconds
	shared bool
	queues bool
	quick  bool
	late   []driver.HoldRef        // of abandoned and released holds
	places []driver.ReleaseRequest // places that may still be in the queue
}

func (w *worker) round(ctx context.Context) {
	q := driver.AcquireRequest{
		Resource: fmt.Sprint("r", w.rnd.IntN(resources)), LockID: w.lockID, HoldID: driver.NewHoldID(),
		TTL: time.Duration(5+w.rnd.IntN(20)) * w.unit,
	}
	if w.rnd.IntN(4) == 0 {
		q.TakeoverDelay = 5 * w.unit
	}
	if w.shared && w.rnd.IntN(2) == 0 {
		q.Mode, q.Limit = driver.Shared, 2+w.rnd.IntN(5)/4
	}
	if w.queues && w.rnd.IntN(4) == 0 {
		q.Place, q.Fair = driver.NewPlaceID(), w.rnd.IntN(4) > 0
	}
	ref, ok := w.acquire(ctx, q)
	for asks := w.rnd.IntN(5); !ok && !q.Place.IsZero() && asks > 0; asks-- { // it waits
		<-w.pace
		q.HoldID = driver.NewHoldID()
		ref, ok = w.acquire(ctx, q)
	}
	if !q.Place.IsZero() {
		gone := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: w.lockID}, Place: q.Place}
		if !ok && w.rnd.IntN(8) > 0 { // otherwise the waiter has gone without a word
			w.leave(ctx, gone)
		}
		w.places = append(w.places, gone)
	}
	if !w.quick && len(w.places) > 0 && w.rnd.IntN(3) == 0 { // otherwise the places end by themselves
		for range 2 { // a late request for the place may follow the first release
			w.leave(ctx, w.places[0])
		}
		w.places = w.places[1:]
	}
	if len(w.late) > 0 && w.rnd.IntN(4) == 0 {
		w.lateRequest(ctx, w.late[w.rnd.IntN(len(w.late))])
	}
	if !ok {
		<-w.pace
		return
	}
	for w.rnd.IntN(3) == 0 {
		<-w.pace
		w.renew(ctx, ref)
	}
	if w.rnd.IntN(3) > 0 {
		w.release(ctx, ref)
	}
	w.late = append(w.late, ref)
}

// acquire repeats the request, with the same hold ID, while there is no answer.
func (w *worker) acquire(ctx context.Context, q driver.AcquireRequest) (ref driver.HoldRef, ok bool) {
	ref = driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}
	for range tries {
		g, err := w.store.Acquire(ctx, q)
		if err == nil {
			ref.Token = g.Token
			return ref, true
		}
		if errors.Is(err, driver.ErrHeld) {
			return ref, false
		}
	}
	w.release(ctx, ref) // clean up a possible grant
	return ref, false
}

func (w *worker) renew(ctx context.Context, ref driver.HoldRef) {
	ttl := time.Duration(5+w.rnd.IntN(20)) * w.unit
	for range tries {
		rs, err := w.store.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: ttl}})
		if err == nil && (rs[0].Err == nil || errors.Is(rs[0].Err, driver.ErrLost)) {
			return
		}
	}
}

func (w *worker) release(ctx context.Context, ref driver.HoldRef) {
	q := driver.ReleaseRequest{HoldRef: ref}
	if w.rnd.IntN(4) == 0 {
		q.After = time.Duration(w.rnd.IntN(10)) * w.unit
	}
	w.leave(ctx, q)
}

// leave repeats a release until it is answered.
func (w *worker) leave(ctx context.Context, q driver.ReleaseRequest) {
	for range tries {
		rs, err := w.store.Release(ctx, []driver.ReleaseRequest{q})
		if err == nil && rs[0].Err == nil {
			return
		}
	}
}

// lateRequest renews or releases a hold like a holder that does not know that it has lost it.
func (w *worker) lateRequest(ctx context.Context, ref driver.HoldRef) {
	if w.rnd.IntN(2) == 0 {
		w.renew(ctx, ref)
		return
	}
	w.release(ctx, ref)
}

// ErrSettled is the error of a missing answer if the test knows more than the caller: the
// request has reached the store by the time Answered, or never will. This spares Check from
// searching the rest of the history for it.
var ErrSettled = errors.New("no answer")

// Faults disturbs an exercise: it loses requests and replies, and delays some requests until
// after later ones.
func Faults(seed uint64) func(drivertest.Call) drivertest.Fault {
	rnd := rand.New(rand.NewPCG(seed, 0))
	return func(c drivertest.Call) drivertest.Fault {
		switch n := rnd.IntN(100); {
		case c.Op == drivertest.Sweep || n >= 12:
			return drivertest.Fault{}
		case n < 5:
			return drivertest.Fault{LoseRequest: true, Err: ErrSettled}
		case n < 10:
			return drivertest.Fault{LoseReply: true, Err: ErrSettled}
		case c.Op == drivertest.Acquire:
			return drivertest.Fault{LoseReply: true, Behind: drivertest.Release}
		default:
			return drivertest.Fault{LoseReply: true, Behind: drivertest.Acquire}
		}
	}
}
