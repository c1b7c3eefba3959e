package dropin_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/interop/oldeslock"
)

type object = map[string]any

// An index that es-distributed-lock has created, with a mapping made by the server, is
// used as it is, and its locks stay held.
func TestTakeOverIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		held, gone := f.old("held", "old"), f.old("expired", "old")
		f.must(held.Acquire(ctx, long))
		f.must(gone.Acquire(ctx, time.Millisecond))
		before := f.source("held")

		f.refused(f.lock("held", "me").Acquire(ctx, long))
		f.must(f.lock("held", "me").Release())
		l := f.lock("expired", "me")
		f.eventually("it has expired", func() bool { return l.Acquire(ctx, long) == nil })
		if after := f.source("held"); len(after) != len(before) || after["owner"] != before["owner"] || after["expires"] != before["expires"] {
			t.Errorf("the document was %v and is %v", before, after)
		}
		for name, x := range f.Must(t, http.MethodGet, "/"+f.index, nil) {
			mappings := x.(object)["mappings"].(object)["properties"].(object)
			owner := mappings["owner"].(object)["fields"].(object)["keyword"].(object)
			if name != f.index || owner["ignore_above"] != 256.0 || mappings["expires"].(object)["type"] != "date" {
				t.Errorf("index %s has the mapping %v, want the one that the server made", name, mappings)
			}
		}
		// Old programs continue.
		if err := gone.Acquire(ctx, long); !errors.Is(err, oldeslock.ErrHeld) {
			t.Errorf("an old program got a held lock: %v", err)
		}
		f.must(held.Acquire(ctx, long)) // this extends it
		f.must(held.MustRelease(ctx))
		f.must(f.lock("held", "me").Acquire(ctx, long))
		f.must(l.MustRelease())
		f.must(gone.Acquire(ctx, long))
		f.must(gone.MustRelease(ctx))
	})
}

// An index that is unfit for locks is refused, with the cause, and not changed.
func TestWrongIndex(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		f.Must(t, http.MethodPut, "/"+f.index, object{"mappings": object{"properties": object{"expires": object{"type": "text"}}}})
		l := f.lock("r", "me")
		for what, err := range map[string]error{"Acquire": l.Acquire(t.Context(), long), "Release": f.lock("r", "me").Release()} {
			if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "expires is mapped as text") {
				t.Errorf("%s: error %v", what, err)
			}
		}
		f.is(l, false, true)
	})
}

// Old programs read the truth at every step.
func TestDocument(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		began := time.Now()
		l := f.acquired("r", "me", long)
		read := func(owner string, from, to time.Time) {
			t.Helper()
			source := f.source("r")
			acquired, err := time.Parse(time.RFC3339Nano, source["acquired"].(string))
			if expires := f.oldExpires("r"); source["owner"] != owner || expires.Before(from) || expires.After(to) ||
				err != nil || acquired.Before(began.Add(-time.Second)) || acquired.After(time.Now().Add(time.Second)) {
				t.Errorf("it is %v, error %v; want owner %q and an end from %v to %v", source, err, owner, from, to)
			}
		}
		read("me", l.Expires.Add(-time.Second), time.Now().Add(long+time.Second))
		f.must(l.Acquire(t.Context(), 2*long))
		read("me", l.Expires.Add(-time.Second), time.Now().Add(2*long+time.Second))
		f.must(l.Release())
		read("", time.Unix(0, 0), time.Unix(0, 0))
		f.acquired("r", "me", long)
		f.Must(t, http.MethodPost, "/"+f.index+"/_refresh", nil)
		reply := f.Must(t, http.MethodPost, "/"+f.index+"/_search", object{"query": object{"term": object{"owner.keyword": "me"}}})
		if hits := reply["hits"].(object)["hits"].([]any); len(hits) != 1 {
			t.Errorf("a query for its owner finds %v", hits)
		}
	})
}

// Old programs do not escape IDs in URLs: by some IDs they lock another document. Here
// such IDs have the same meaning.
func TestOldIDs(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		f.must(f.acquired("first", "me", long).MustRelease()) // creates the index
		for _, id := range []string{"plain", "a b", "c%2Fd", "e#f", "g%20h", "i+j", "%C3%BC", "ü", "..", `k"\^l`, "m;n", "100%25", "job/", "job//", "job/#x", "trail%2F", "trail%2F/"} {
			old, l := f.old(id, "old"), f.lock(id, "me")
			f.must(old.Acquire(ctx, long))
			f.refused(l.Acquire(ctx, long))
			f.must(old.Acquire(ctx, time.Millisecond)) // the old program may be unable to find and release it
			f.eventually("it has expired", func() bool { return l.Acquire(ctx, long) == nil })
			if err := old.Acquire(ctx, long); !errors.Is(err, oldeslock.ErrHeld) {
				t.Errorf("%q: an old program got a held lock: %v", id, err)
			}
			f.must(l.MustRelease())
			f.must(old.Acquire(ctx, time.Millisecond))
		}
		for _, id := range []string{"a?b", "a?pretty", "a%252Fb", "a%00"} {
			if err := f.lock(id, "me").Acquire(ctx, long); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), "es-distributed-lock locks") {
				t.Errorf("%q: error %v", id, err)
			}
		}
		for _, id := range []string{"a/b", "a/b/", "a//b", "/a", "100%", "a\nb", "a\x7fb"} { // by these old programs lock nothing
			if err := f.old(id, "old").Acquire(ctx, long); err == nil || errors.Is(err, oldeslock.ErrHeld) {
				t.Errorf("%q: an old program says %v", id, err)
			}
			f.must(f.acquired(id, "me", long).MustRelease())
		}
	})
}

// docs/migrate-elasticsearch.md says that old programs do not find the locks again that
// they acquired by an ID that a URL changes. TestOldIDs has IDs by which they lock
// nothing.
func TestOldIDsOfOldPrograms(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		for id, document := range map[string]string{"c%2Fd": "c/d", "50%25": "50%", "e#f": "e"} {
			old := f.old(id, "old")
			f.must(old.Acquire(ctx, long))
			if err := old.MustRelease(ctx); !errors.Is(err, oldeslock.ErrNoEffect) {
				t.Errorf("%q is released: error %v", id, err)
			}
			if owner := f.source(document)["owner"]; owner != "old" {
				t.Errorf("%q: the document %q has the owner %v", id, document, owner)
			}
		}
	})
}

// With the same owner, an old and a new program share the lock, as two old ones do.
func TestOwnerSharedWithOldProgram(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		old := f.old("r", "me")
		f.must(old.Acquire(ctx, long))
		l := f.acquired("r", "me", 2*long) // extends the lock of the old program
		if left := time.Until(f.oldExpires("r")); left < long {
			t.Errorf("extended, it expires in %v", left)
		}
		f.must(old.Acquire(ctx, 3*long)) // and vice versa
		f.must(l.Acquire(ctx, long))
		f.refused(f.lock("r", "other").Acquire(ctx, long))
		f.must(l.MustRelease())
		f.must(f.acquired("r", "other", long).MustRelease())

		// A lock that the old program released is lost, and can be acquired again.
		l = f.acquired("s", "me", long)
		f.Must(t, http.MethodPost, "/"+f.index+"/_refresh", nil) // otherwise it would not find it
		old = f.old("s", "me")
		f.must(old.Acquire(ctx, long))
		f.must(old.MustRelease(ctx))
		f.must(l.Acquire(ctx, long))
		f.refused(f.lock("s", "other").Acquire(ctx, long))
		f.must(l.MustRelease())
	})
}

// When an old program with the same owner extends the lock, the keep-alive continues,
// because the owner still has the lock.
func TestKeepAliveBesideOldProgram(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		const ttl = 3 * time.Second
		l := f.acquired("r", "me", ttl)
		f.must(l.KeepAlive(t.Context(), ttl-ttl/4))
		for range 3 {
			f.must(f.old("r", "me").Acquire(t.Context(), ttl))
			wrote := f.oldExpires("r")
			f.eventually("the keep-alive extends it", func() bool {
				f.is(l, true, false)
				return f.oldExpires("r").After(wrote)
			})
		}
		f.must(l.MustRelease())
		// With another owner it does not.
		l = f.acquired("r", "me", ttl)
		f.must(l.KeepAlive(t.Context(), ttl-ttl/4))
		ahead := oldeslock.New(f, f.index, "r", "other", func() time.Time { return time.Now().Add(long) }) // its clock decides
		f.must(ahead.Acquire(t.Context(), long))
		f.eventually("it is lost", func() bool { return !l.IsAcquired() })
		f.is(l, false, true)
		f.must(l.Release())
		f.refused(l.Acquire(t.Context(), long))
	})
}

// Programs with Holdfast's own Client on the same index see the owner as the lock ID.
func TestBesideClient(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fixture) {
		ctx := t.Context()
		c := holdfast.New(eslock.New(f, &eslock.Options{Index: f.index, OldClients: true}), nil)
		defer c.Close()
		l := f.acquired("r", "me", long)
		_, err := c.TryLock(ctx, "r", nil)
		var held *holdfast.HeldError
		if !errors.As(err, &held) || held.Holders[0].LockID != "me" {
			t.Errorf("error %v", err)
		}
		waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		granted := make(chan error, 1)
		go func() {
			h, err := c.Lock(waiting, "r", nil)
			if err == nil {
				err = h.Unlock(ctx)
			}
			granted <- err
		}()
		f.must(l.MustRelease())
		f.must(<-granted)
		h, err := c.RLock(ctx, "r", nil)
		f.must(err)
		f.refused(l.Acquire(ctx, long))
		f.must(h.Unlock(ctx))
		f.must(l.Acquire(ctx, long))
		if _, err := c.Admin().ForceRelease(ctx, "r", holdfast.HoldID{}); err != nil {
			t.Error(err)
		}
		if err := l.MustRelease(); err == nil {
			t.Error("it was released by force")
		}
	})
}
