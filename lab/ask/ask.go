// Package ask has assertions about a store for the tests of stores. Each function makes a
// request, such as an acquire or a renewal, and ends the test if the store answers otherwise
// than the name of the function says.
package ask

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Request returns a request for an exclusive hold with a TTL of an hour.
func Request(resource, lockID string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: time.Hour}
}

// Shared returns the request for a shared hold instead.
func Shared(q driver.AcquireRequest, limit int) driver.AcquireRequest {
	q.Mode, q.Limit = driver.Shared, limit
	return q
}

// Granted fails the test unless the store grants the hold.
func Granted(t testing.TB, s driver.Store, q driver.AcquireRequest) driver.HoldRef {
	t.Helper()
	g, err := s.Acquire(t.Context(), q)
	if err != nil {
		t.Fatalf("acquire of %q by %q: %v", q.Resource, q.LockID, err)
	}
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}
}

// Refused fails the test unless the store refuses the hold because others hold the resource.
func Refused(t testing.TB, s driver.Store, q driver.AcquireRequest) *driver.HeldError {
	t.Helper()
	_, err := s.Acquire(t.Context(), q)
	var held *driver.HeldError
	if !errors.As(err, &held) {
		t.Fatalf("acquire of %q by %q: %v; it should be held", q.Resource, q.LockID, err)
	}
	return held
}

// Lost fails the test unless the hold can no longer be renewed.
func Lost(t testing.TB, s driver.Store, ref driver.HoldRef) {
	t.Helper()
	rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err != nil || !errors.Is(rs[0].Err, driver.ErrLost) {
		t.Fatalf("renewal of %q: %v %v; want ErrLost", ref.Resource, rs, err)
	}
}

// Released releases the hold and returns whether the store had it. An error fails the test.
func Released(t testing.TB, s driver.Store, ref driver.HoldRef, after time.Duration) (found bool) {
	t.Helper()
	rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref, After: after}})
	if err != nil || rs[0].Err != nil {
		t.Fatalf("release of %q: %v %v", ref.Resource, rs, err)
	}
	return rs[0].Found
}

// Damaged fails the test unless every request for the resource of ref reports that its record
// is damaged; only a sweep does not. The hold must be the last of the resource.
func Damaged(t testing.TB, s driver.Store, ref driver.HoldRef) {
	t.Helper()
	damaged := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, driver.ErrDamaged) {
			t.Errorf("%s: error %v, want ErrDamaged", what, err)
		}
	}
	q := Request(ref.Resource, "another")
	_, err := s.Acquire(t.Context(), q)
	damaged("exclusive acquire", err)
	if s.Traits().Shared {
		_, err = s.Acquire(t.Context(), Shared(q, 5))
		damaged("shared acquire", err)
	}
	renewed, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	damaged("renew", renewed[0].Err)
	for what, q := range map[string]driver.ReleaseRequest{
		"release":            {HoldRef: ref},
		"release later":      {HoldRef: ref, After: time.Minute},
		"release by lock ID": {HoldRef: driver.HoldRef{Resource: ref.Resource, LockID: ref.LockID}},
	} {
		released, err := s.Release(t.Context(), []driver.ReleaseRequest{q})
		if err != nil {
			t.Fatal(err)
		}
		damaged(what, released[0].Err)
	}
	for _, err := range s.List(t.Context(), driver.Filter{Resource: ref.Resource}) {
		damaged("list", err)
	}
	if _, err := s.Sweep(t.Context(), driver.SweepRequest{}); err != nil {
		t.Errorf("sweep: %v", err)
	}
}

// Woken fails the test unless a signal arrives.
func Woken(t testing.TB, signals <-chan struct{}, why string) {
	t.Helper()
	came := false
	Until(t, "there is a signal: "+why, func() bool {
		select {
		case _, open := <-signals:
			came = open
		default:
		}
		return came
	})
}

// Until polls until is returns true. After a minute it marks the test as failed and returns.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for !is() {
		select {
		case <-poll.C:
		case <-deadline.C:
			t.Errorf("waited a minute in vain until %s", what)
			return
		}
	}
}
