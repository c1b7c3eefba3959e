package dropin_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	lock "github.com/holdfast-go/holdfast/eslock/compat/es-distributed-lock"
)

const (
	// long is a TTL that does not end within a test. short is a TTL that a test waits
	// for, but that does not end before a busy machine can look.
	long  = time.Hour
	short = 1500 * time.Millisecond
)

// One owner has the lock. Others are refused until it is released or has expired.
func TestExclusive(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		began := time.Now()
		l, other := f.acquired("r", "me", long), f.lock("r", "other")
		if l.Acquired.Before(began) || l.Acquired.After(time.Now()) || !l.Expires.Equal(l.Acquired.Add(long)) || l.ID != "r" || l.Owner != "me" {
			t.Errorf("%+v", l)
		}
		f.is(other, false, true)
		f.refused(other.Acquire(ctx, long))
		var held *driver.HeldError
		if err := other.Acquire(ctx, long); !errors.As(err, &held) || len(held.Holders) != 1 || held.Holders[0].LockID != "me" {
			t.Errorf("held by %+v", held)
		}
		f.is(other, false, true)
		f.must(other.Release())
		if err := other.MustRelease(); err == nil {
			t.Error("there was nothing to release")
		}
		f.must(l.MustRelease())
		f.is(l, false, true)
		f.must(other.Acquire(ctx, short))
		f.refused(l.Acquire(ctx, long))
		f.eventually("it expires", func() bool { return l.Acquire(ctx, long) == nil })
		f.is(other, false, true)
		f.must(other.Release()) // late, but harmless
		f.is(l, true, false)
		f.refused(f.lock("r", "third").Acquire(ctx, long))
		f.must(l.Release())
		f.must(l.Release())
		if err := l.MustRelease(); err == nil {
			t.Error("released twice")
		}
	})
}

// The owner has the lock in every program: acquiring again extends it.
func TestSameOwner(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		l := f.acquired("r", "me", long)
		acquired, first := f.source("r")["acquired"], l.Acquired
		f.must(l.Acquire(ctx, 2*long))
		if left := time.Until(f.oldExpires("r")); left < long || l.Expires.Before(time.Now().Add(long)) {
			t.Errorf("extended, it expires in %v; the field says %v", left, l.Expires)
		}
		peer := f.acquired("r", "me", 3*long)
		if left := time.Until(f.oldExpires("r")); left < 2*long || f.source("r")["acquired"] != acquired || !l.Acquired.Equal(first) {
			t.Errorf("extended by another, it expires in %v", left)
		}
		// All Locks of the process have the same default owner.
		one, two := lock.NewLock(f.wire, "s"), lock.NewLock(f.wire, "s")
		f.must(one.Acquire(ctx, long))
		f.must(two.Acquire(ctx, long))
		f.refused(f.lock("s", "me").Acquire(ctx, long))
		// A release by one of them releases the lock of both.
		f.must(peer.MustRelease())
		f.must(f.lock("r", "other").Acquire(ctx, long))
		f.refused(l.Acquire(ctx, long))
		if err := l.MustRelease(); err == nil {
			t.Error("there was nothing to release")
		}
		// After a restart of the program.
		f.must(f.lock("r", "other").MustRelease())
		f.must(l.Acquire(ctx, long))
	})
}

// Before the first lock through a client the index is checked, and the server compiles
// the scripts: a lock with a short TTL has no time for that. A user without the right to
// look at the index may still lock.
func TestFirstUse(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.must(f.acquired("r", "me", short).MustRelease())
		kinds := ""
		for _, req := range f.wire.requests() {
			switch path := req.URL.Path; {
			case strings.HasSuffix(path, "/_bulk"):
				kinds += "b"
			default:
				kinds += "i"
			}
		}
		if strings.TrimLeft(kinds, "i") != "bbb" {
			t.Errorf("requests %s; want those about the index, one bulk of scripts, and two of an update", kinds)
		}
		l := lock.NewLock(&forbidden{f.wire}, "r").WithOwner("me")
		f.must(l.Acquire(t.Context(), long))
		f.must(l.MustRelease())
	})
}

// forbidden may not look at the index.
type forbidden struct{ eslock.Performer }

func (p *forbidden) Perform(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet {
		return p.Performer.Perform(req)
	}
	return &http.Response{
		StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		Body: io.NopCloser(strings.NewReader(`{"error":{"type":"security_exception","reason":"action is unauthorized"},"status":403}`)),
	}, nil
}

// In normal operation each step sends one request, without a refresh. The first one
// creates the index.
func TestRequests(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.acquired("first", "me", long)
		f.wire.requests()
		l := f.acquired("r", "me", long)
		f.must(l.Acquire(t.Context(), long))
		f.refused(f.lock("r", "other").Acquire(t.Context(), long))
		f.must(l.Release())
		sent := f.wire.requests()
		for _, req := range sent {
			if !strings.HasSuffix(req.URL.Path, "/_bulk") || req.URL.Query().Has("refresh") {
				t.Errorf("%s %s", req.Method, req.URL)
			}
		}
		if len(sent) != 4 {
			t.Errorf("%d requests", len(sent))
		}
		_ = lock.NewLock(f.wire, "r").IsAcquired()
		if sent := f.wire.requests(); len(sent) != 0 {
			t.Errorf("NewLock sent %d requests", len(sent))
		}
	})
}

// Names are plain text, whatever they look like.
func TestNames(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		for _, name := range []string{
			"a/b", "..", ".", "%2F", "a b", "a#b", "100%", "_source", "ü 世界 🔒", `"'\`, "${x}", "*", "a,b", "\n", strings.Repeat("n", 512), strings.Repeat("n", 1024),
		} {
			l := f.acquired(name, name, long)
			f.must(l.Acquire(t.Context(), long))
			f.refused(f.lock(name, "other").Acquire(t.Context(), long))
			f.must(l.MustRelease())
			f.must(f.acquired(name, "other", long).MustRelease())
		}
	})
}
