package drivertest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// on disturbs the n-th call of op.
func on(op drivertest.Op, n int, f drivertest.Fault) func(drivertest.Call) drivertest.Fault {
	return func(c drivertest.Call) drivertest.Fault {
		if c.Op == op && c.N == n {
			return f
		}
		return drivertest.Fault{}
	}
}

func request(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: time.Minute}
}

func release(q driver.AcquireRequest) []driver.ReleaseRequest {
	return []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID}}}
}

// inStore reports whether the store itself has a hold of the resource.
func inStore(t *testing.T, store driver.Store, resource string) bool {
	t.Helper()
	for _, err := range store.List(context.Background(), driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		return true
	}
	return false
}

func TestFaultStoreLosesCalls(t *testing.T) {
	broken := errors.New("wire cut")
	for name, c := range map[string]struct {
		fault   drivertest.Fault
		want    error
		applied bool
	}{
		"nothing":        {drivertest.Fault{}, nil, true},
		"request":        {drivertest.Fault{LoseRequest: true}, drivertest.ErrFault, false},
		"reply":          {drivertest.Fault{LoseReply: true}, drivertest.ErrFault, true},
		"with own error": {drivertest.Fault{LoseRequest: true, Err: broken}, broken, false},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memlock.New(nil)
			f := drivertest.NewFaultStore(inner, on(drivertest.Acquire, 1, c.fault))
			defer f.Close()
			q := request("r", "a")
			if _, err := f.Acquire(t.Context(), q); !errors.Is(err, c.want) {
				t.Errorf("got error %v, want %v", err, c.want)
			}
			if got := inStore(t, inner, "r"); got != c.applied {
				t.Errorf("applied: %v, want %v", got, c.applied)
			}
			if _, err := f.Acquire(t.Context(), q); err != nil {
				t.Errorf("the repeat failed: %v", err)
			}
			if n := f.Calls(drivertest.Acquire); n != 2 {
				t.Errorf("counted %d acquires, want 2", n)
			}
		})
	}
}

func TestFaultStoreDropsResults(t *testing.T) {
	f := drivertest.NewFaultStore(memlock.New(nil), on(drivertest.Release, 1, drivertest.Fault{DropLast: 2}))
	defer f.Close()
	var batch []driver.ReleaseRequest
	for _, r := range []string{"a", "b", "c"} {
		batch = append(batch, release(request(r, "x"))...)
	}
	got, err := f.Release(t.Context(), batch)
	if err != nil || len(got) != 1 {
		t.Errorf("got %d results and error %v, want 1 and none", len(got), err)
	}
}

func TestFaultStoreListBreaksOff(t *testing.T) {
	f := drivertest.NewFaultStore(memlock.New(nil), on(drivertest.List, 1, drivertest.Fault{LoseReply: true}))
	defer f.Close()
	for _, r := range []string{"a", "b", "c"} {
		if _, err := f.Acquire(t.Context(), request(r, "x")); err != nil {
			t.Fatal(err)
		}
	}
	var holds, failures int
	for _, err := range f.List(t.Context(), driver.Filter{}) {
		if err != nil {
			failures++
			continue
		}
		holds++
	}
	if holds != 1 || failures != 1 {
		t.Errorf("got %d holds and %d errors, want one of each", holds, failures)
	}
}

func TestFaultStoreDeliversLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memlock.New(nil)
		arrive := make(chan struct{})
		f := drivertest.NewFaultStore(inner, on(drivertest.Acquire, 1, drivertest.Fault{HoldRequest: arrive}))
		defer f.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Acquire(ctx, request("r", "a")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v while the request was held back", err)
		}
		if inStore(t, inner, "r") {
			t.Error("the request reached the store while it was held back")
		}
		close(arrive)
		synctest.Wait()
		if !inStore(t, inner, "r") {
			t.Error("the request never reached the store")
		}
	})
}

func TestFaultStoreDeliversAcquireBehindItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memlock.New(nil)
		f := drivertest.NewFaultStore(inner, on(drivertest.Acquire, 1, drivertest.Fault{Behind: drivertest.Release}))
		defer f.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		q := request("r", "a")
		if _, err := f.Acquire(ctx, q); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got error %v while the request was held back", err)
		}
		if _, err := f.Release(t.Context(), release(request("other", "a"))); err != nil || inStore(t, inner, "r") {
			t.Fatalf("a release of another resource delivered the request (error %v)", err)
		}
		got, err := f.Release(t.Context(), release(q))
		if err != nil || got[0].Found {
			t.Errorf("release answered %+v, %v; it should come first and find nothing", got, err)
		}
		if !inStore(t, inner, "r") {
			t.Error("the acquire did not arrive behind the release")
		}
	})
}

func TestFaultStoreHoldsReplyBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memlock.New(nil)
		answer := make(chan struct{})
		f := drivertest.NewFaultStore(inner, on(drivertest.Acquire, 1, drivertest.Fault{HoldReply: answer}))
		defer f.Close()
		granted := make(chan error, 1)
		go func() {
			_, err := f.Acquire(t.Context(), request("r", "a"))
			granted <- err
		}()
		synctest.Wait()
		if len(granted) != 0 || !inStore(t, inner, "r") {
			t.Errorf("answered: %v, applied: %v; want false and true", len(granted) != 0, inStore(t, inner, "r"))
		}
		close(answer)
		if err := <-granted; err != nil {
			t.Error(err)
		}
	})
}

func TestFaultStoreDisturbsWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut, quiet := make(chan struct{}), make(chan struct{})
		f := drivertest.NewFaultStore(memlock.New(nil),
			on(drivertest.Watch, 1, drivertest.Fault{Cut: cut, HoldSignals: quiet}))
		defer f.Close()
		signals, err := f.Watch(t.Context(), "r")
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			q := request("r", "a")
			if _, err := f.Acquire(t.Context(), q); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Release(t.Context(), release(q)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(signals) != 0 {
			t.Error("a signal came while signals were held back")
		}
		close(quiet)
		synctest.Wait()
		if len(signals) != 1 {
			t.Errorf("%d signals came after that, want 1", len(signals))
		}
		<-signals
		close(cut)
		if _, open := <-signals; open {
			t.Error("the watch was cut, yet its channel is open")
		}
	})
}

func TestFaultStoreCloseDropsWhatIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := memlock.New(nil)
		never := make(chan struct{})
		f := drivertest.NewFaultStore(inner, func(c drivertest.Call) drivertest.Fault {
			if c.N == 1 {
				return drivertest.Fault{HoldRequest: never}
			}
			return drivertest.Fault{Behind: drivertest.Sweep}
		})
		failed := make(chan error, 2)
		for _, r := range []string{"a", "b"} {
			go func() {
				_, err := f.Acquire(t.Context(), request(r, "x"))
				failed <- err
			}()
		}
		synctest.Wait()
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-failed; !errors.Is(err, drivertest.ErrFault) {
				t.Errorf("got error %v, want ErrFault", err)
			}
		}
		if inStore(t, inner, "a") || inStore(t, inner, "b") {
			t.Error("a request that was held back reached the store after Close")
		}
	})
}

func TestRandomFaultsSpareWhatMustNotBeRepeated(t *testing.T) {
	decide := drivertest.RandomFaults(1, 100)
	sure := drivertest.Call{Op: drivertest.Release, Refs: []driver.HoldRef{{Resource: "r", LockID: "a"}}}
	for range 100 {
		if f := decide(sure); f != (drivertest.Fault{}) {
			t.Fatalf("a release without hold ID met %+v", f)
		}
	}
	seen := map[drivertest.Fault]bool{}
	for range 100 {
		seen[decide(drivertest.Call{Op: drivertest.Renew, Refs: make([]driver.HoldRef, 0)})] = true
	}
	if !seen[drivertest.Fault{LoseRequest: true}] || !seen[drivertest.Fault{LoseReply: true}] {
		t.Errorf("100 calls met only %v", seen)
	}
}
