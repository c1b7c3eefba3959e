package cas_test

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/model"
)

// FuzzModelAgainstCAS reads a history and its mishaps from bytes. It repeats requests without
// an answer, as the Client does. The answers and the records must then be the same as the
// model's.
func FuzzModelAgainstCAS(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1, 0x10, 0, 0x21, 7, 0x12, 0x33, 4, 0x10, 9, 9, 9, 9, 9, 0x55, 3, 0x80, 1, 2, 0x44, 4})
	// A hold without an end, 5 s, a waiter that meets a conflict, another one, a list.
	f.Add([]byte{1, 0, 0, 0, 0, 99, 0, 0, 0, 0, 6, 254, 0, 0, 1, 1, 1, 0, 0, 1, 1, 0, 0, 2, 2, 1, 0, 0, 1, 0, 4, 0, 0})
	f.Add([]byte("acquire, renew, release, list, sweep; acquire, renew, release, list, sweep"))
	// A record is swept and made again while the clock stands still.
	f.Add([]byte("0100000000A8000001100000000002B001010100B02Y0Y\x001"))
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 600 {
			return // a history that fails can do so in fewer steps
		}
		r := &replay{t: t, script: script, backend: newBackend(), records: make(map[string]model.Record)}
		r.next(2)
		r.store = drivertest.NewRepeater(cas.New(r.backend))
		r.backend.mishaps = func(string) mishap {
			// There are no mishaps after the end of the bytes.
			if what := mishap(r.next(12)); what <= failsAfter && what != nothing {
				// Other requests of a batch were applied before the failing one.
				r.repeated = r.repeated || what == failsAfter || what == failsBefore
				r.undone = r.undone || what == failsBefore
				return what
			}
			return nothing
		}
		for len(r.script) > 0 {
			r.step()
		}
		r.compareRecords()
	})
}

// replay applies a script to a store and to the model.
type replay struct {
	t        *testing.T
	script   []byte
	backend  *backend
	store    driver.Store
	records  map[string]model.Record
	floor    uint64 // the highest of the deleted records
	refs     []driver.HoldRef
	repeated bool // the requests of the step may have been applied without an answer
	undone   bool // a change of the step was not made
}

// next reads a number below n, or 0 at the end of the script.
func (r *replay) next(n int) int {
	if len(r.script) == 0 {
		return 0
	}
	b := r.script[0]
	r.script = r.script[1:]
	return int(b) % n
}

func (r *replay) step() {
	r.repeated, r.undone = false, false
	switch r.next(7) {
	case 0, 1:
		r.acquire()
	case 2:
		r.renew()
	case 3:
		r.release()
	case 4:
		r.list()
	case 5:
		r.sweep()
	case 6:
		switch n := r.next(256); n {
		case 255:
			r.backend.now += model.Time(driver.FairPlaceTTL / time.Microsecond)
		case 254:
			r.backend.now += model.Time(driver.FairPlaceTTL / 4 / time.Microsecond)
		default:
			r.backend.now += model.Time(n) * 500
		}
	}
}

func (r *replay) record(resource string) model.Record {
	if rec, ok := r.records[resource]; ok {
		return rec
	}
	return base.Missing(resource, r.floor, r.backend.now).Record
}

// ttl returns a TTL in the range of the time that step 6 lets pass.
func (r *replay) ttl() time.Duration {
	if n := r.next(100); n < 99 {
		return time.Duration(n+1) * time.Millisecond
	}
	return driver.Forever
}

func (r *replay) acquire() {
	q := driver.AcquireRequest{
		Resource: fmt.Sprint(r.next(3)), LockID: fmt.Sprint(r.next(4)), HoldID: driver.HoldID{1, byte(r.next(6))},
		TTL: r.ttl(), TakeoverDelay: time.Duration(r.next(3)) * 20 * time.Millisecond,
	}
	if r.next(3) > 0 {
		q.Mode, q.Limit = driver.Shared, r.next(4)
	}
	if r.next(2) == 1 {
		q.Place, q.Fair = driver.PlaceID{byte(r.next(3) + 1)}, r.next(2) == 1
	}
	rec, want, changed, refused := model.Acquire(r.record(q.Resource), r.backend.now, q)
	got, err := r.store.Acquire(r.t.Context(), q)
	// After an error the place is not written again, and the refusal has none.
	if changed && (err == nil || !r.undone) {
		r.records[q.Resource] = rec
	}
	var held *driver.HeldError
	if errors.As(refused, &held) && changed && r.repeated {
		held.Position = driver.NoPlace
		held.Waiters--
	}
	if !reflect.DeepEqual(err, refused) || got != want {
		r.t.Fatalf("%+v:\nstore says %+v, %v\nmodel says %+v, %v", q, got, err, want, refused)
	}
	if err == nil {
		r.refs = append(r.refs, driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: got.Token})
	}
}

// some returns refs of granted holds, possibly none.
func (r *replay) some() []driver.HoldRef {
	refs := make([]driver.HoldRef, r.next(5))
	for i := range refs {
		refs[i] = driver.HoldRef{Resource: "0", LockID: "0", HoldID: driver.HoldID{9}}
		if len(r.refs) > 0 {
			refs[i] = r.refs[r.next(len(r.refs))]
		}
		switch r.next(10) {
		case 1:
			refs[i].Token = 0
		case 2:
			refs[i].Token++
		}
	}
	return refs
}

func (r *replay) renew() {
	var qs []driver.RenewRequest
	for _, ref := range r.some() {
		qs = append(qs, driver.RenewRequest{HoldRef: ref, TTL: r.ttl()})
	}
	got, err := r.store.Renew(r.t.Context(), qs)
	if err != nil {
		r.t.Fatal(err)
	}
	for i, q := range qs {
		rec, want := model.Renew(r.record(q.Resource), r.backend.now, q)
		if want.Err == nil {
			r.records[q.Resource] = rec
		}
		if errors.Is(got[i].Err, driver.ErrLost) != (want.Err != nil) || got[i].Err != nil && want.Err == nil {
			r.t.Fatalf("%+v:\nstore says %+v\nmodel says %+v", q, got[i], want)
		}
		if got[i].Left < want.Left || !r.repeated && got[i].Left != want.Left {
			r.t.Fatalf("%+v: store says %v left, model %v", q, got[i].Left, want.Left)
		}
	}
}

func (r *replay) release() {
	var qs []driver.ReleaseRequest
	after := time.Duration(max(0, r.next(60)-30)) * time.Millisecond
	for _, ref := range r.some() {
		qs = append(qs, driver.ReleaseRequest{HoldRef: ref, After: after})
	}
	got, err := r.store.Release(r.t.Context(), qs)
	if err != nil {
		r.t.Fatal(err)
	}
	for i, q := range qs {
		rec, found, _ := model.Release(r.record(q.Resource), r.backend.now, q)
		if found {
			r.records[q.Resource] = rec
		}
		if got[i].Err != nil || got[i].Found && !found || !r.repeated && got[i].Found != found {
			r.t.Fatalf("%+v: store says %+v, model found it: %v", q, got[i], found)
		}
	}
}

func (r *replay) list() {
	f := driver.Filter{Resource: []string{"", "0", "1"}[r.next(3)], Expired: r.next(2) == 1}
	var got, want []driver.Status
	for s, err := range r.store.List(r.t.Context(), f) {
		if err != nil {
			r.t.Fatal(err)
		}
		got = append(got, s)
	}
	for _, resource := range []string{"0", "1", "2"} {
		if rec, ok := r.records[resource]; ok && (f.Resource == "" || f.Resource == resource) {
			want = append(want, model.Statuses(rec, r.backend.now, f)...)
		}
	}
	if !reflect.DeepEqual(got, want) {
		r.t.Fatalf("%+v:\nstore shows %+v\nmodel shows %+v", f, got, want)
	}
}

// sweep runs without conflicts: a record that is in use may be left for the next sweep, which
// the model does not know. The model gets the idle times from the store: each repeat of a
// change touches the record once more.
func (r *replay) sweep() {
	idle := time.Duration(r.next(100)) * time.Millisecond
	mishaps := r.backend.mishaps
	r.backend.mishaps = nil
	defer func() { r.backend.mishaps = mishaps }()
	touched := make(map[string]model.Time)
	for resource, stored := range r.backend.records {
		touched[resource] = stored.Record.Touched
	}
	got, err := r.store.Sweep(r.t.Context(), driver.SweepRequest{Idle: idle})
	var want driver.SweepResult
	for resource, rec := range r.records {
		if touched[resource] < rec.Touched {
			r.t.Fatalf("store touched %q at %v, model at %v", resource, touched[resource], rec.Touched)
		}
		rec.Touched = touched[resource]
		swept, dropped, remove := model.Sweep(rec, r.backend.now, idle)
		want.Holds += dropped
		if r.records[resource] = swept; remove {
			delete(r.records, resource)
			r.floor = max(r.floor, rec.Floor())
			want.Records++
		}
	}
	if err != nil || got != want {
		r.t.Fatalf("store swept %+v, error %v; model %+v", got, err, want)
	}
}

// compareRecords ignores Touched, which rises with every repeat.
func (r *replay) compareRecords() {
	for resource, want := range r.records {
		got := r.backend.records[resource].Record
		if got.Token != want.Token || len(got.Holds)+len(want.Holds) > 0 && !reflect.DeepEqual(got.Holds, want.Holds) {
			r.t.Errorf("store has\n%+v, model\n%+v", got, want)
		}
	}
}
