package eslock_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// scripts is the number of scripts of package eslock.
const scripts = 3

// A node without other users has compiled each script once, after thousands of operations
// of all kinds with different parameters: when the store was opened, because the first
// lock may not have the time.
func compiledOnce(t *testing.T, n node) {
	const workers, rounds = 4, 75
	before := n.compilations(t)
	s := newStore(t, n, &eslock.Options{Index: n.Index(t)})
	if compiled := n.compilations(t) - before; compiled != scripts {
		t.Errorf("%v compilations to open the store, want %d", compiled, scripts)
	}
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for round := range rounds {
				name := fmt.Sprint(worker, "-", round)
				if round%2 == 0 {
					name += ` "'${x}` // with characters that matter in a bulk
				}
				if err := useOnce(t, s, name); err != nil {
					t.Errorf("%q: %v", name, err)
				}
				if round%25 == 0 {
					short := ask.Request(name, name) // for the sweep
					short.TTL = time.Millisecond
					if _, err := s.Acquire(t.Context(), short); err != nil {
						t.Error(err)
					}
					if _, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if compiled := n.compilations(t) - before; compiled != scripts {
		t.Errorf("%v compilations for %d operations, want %d", compiled, workers*rounds*7, scripts)
	}
}

// useOnce sends each kind of request about one resource, with different parameters.
func useOnce(t *testing.T, s driver.Store, name string) error {
	ctx, q := t.Context(), ask.Request(name, name)
	q.TTL += time.Duration(len(name)) * time.Second
	g, err := s.Acquire(ctx, q)
	if err != nil {
		return err
	}
	if _, err := s.Acquire(ctx, ask.Shared(ask.Request(name, "b"), len(name))); !errors.Is(err, driver.ErrHeld) {
		return fmt.Errorf("acquire by another lock ID: %v", err)
	}
	ref := driver.HoldRef{Resource: name, LockID: name, HoldID: q.HoldID, Token: g.Token}
	for _, renewals := range [][]driver.RenewRequest{
		{{HoldRef: ref, TTL: driver.Forever}},
		{{HoldRef: ref, TTL: time.Hour}, {HoldRef: ref, TTL: time.Hour}},
	} {
		if rs, err := s.Renew(ctx, renewals); err != nil || rs[0].Err != nil {
			return fmt.Errorf("renewed %+v, error %v", rs, err)
		}
	}
	for _, err := range s.List(ctx, driver.Filter{Resource: name}) {
		if err != nil {
			return err
		}
	}
	for _, after := range []time.Duration{time.Minute, 0} {
		if rs, err := s.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref, After: after}}); err != nil || rs[0].Err != nil || !rs[0].Found {
			return fmt.Errorf("released %+v, error %v", rs, err)
		}
	}
	return nil
}

func (n node) compilations(t testing.TB) (sum float64) {
	for _, x := range n.Must(t, http.MethodGet, "/_nodes/stats/script", nil)["nodes"].(object) {
		sum += x.(object)["script"].(object)["compilations"].(float64)
	}
	return sum
}
