package httplock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/memlock"
)

// A server shows no IDs to callers without names. A store still recognizes its own holds,
// also holds that it has only renewed.
func TestOwnHoldsThroughServer(t *testing.T) {
	url := newSite(t, memlock.New(nil), everybody).url
	mine, other := dial(t, url), dial(t, url)
	q := ask.Request("r", "a")
	g, err := mine.Acquire(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	ref := driver.HoldRef{Resource: "r", LockID: "a", HoldID: q.HoldID, Token: g.Token}
	unknown := driver.HoldRef{Resource: "r"}
	sees := func(what string, s *httplock.Store, want driver.HoldRef) {
		t.Helper()
		var holds []driver.Status
		for h, err := range s.List(context.WithoutCancel(t.Context()), driver.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			holds = append(holds, h)
		}
		_, err := s.Acquire(t.Context(), ask.Request("r", "b"))
		var held *driver.HeldError
		if !errors.As(err, &held) || len(holds) != 1 || len(held.Holders) != 1 {
			t.Fatalf("%s: %+v, %v", what, holds, err)
		}
		if listed, refused := holds[0].Ref(), held.Holders[0].Ref(); listed != want || refused != want {
			t.Errorf("%s: listed as %+v, refused by %+v, want %+v", what, listed, refused, want)
		}
	}
	sees("who acquired it", mine, ref)
	sees("another", other, unknown)
	if rs, err := other.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Minute}}); err != nil || rs[0].Err != nil {
		t.Fatal(rs, err)
	}
	sees("who renewed it", other, ref)
	if rs, err := mine.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref, After: time.Minute}}); err != nil || rs[0].Err != nil {
		t.Fatal(rs, err)
	}
	sees("who released it", mine, unknown)
	if rs, err := other.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Minute}}); err != nil || !errors.Is(rs[0].Err, driver.ErrLost) {
		t.Fatal(rs, err)
	}
	sees("who lost it", other, unknown)
}
