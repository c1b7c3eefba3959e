package holdfast_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// What is malformed is refused by name, and nothing is sent.
func TestS36_invalid_arguments(t *testing.T) {
	long := strings.Repeat("x", driver.MaxName)
	f := faulty(t, memlock.New(nil))
	c := newClient(t, f, nil)
	for name, test := range map[string]struct {
		resource string
		o        holdfast.LockOptions
		shared   bool
		says     string
	}{
		"no resource":               {"", holdfast.LockOptions{}, false, "resource"},
		"resource too long":         {long + "x", holdfast.LockOptions{}, false, "1025"},
		"NUL":                       {"a\x00b", holdfast.LockOptions{}, false, "NUL"},
		"not UTF-8":                 {"\xff", holdfast.LockOptions{}, false, "UTF-8"},
		"lock ID too long":          {"r", holdfast.LockOptions{LockID: long + "x"}, false, "lock ID"},
		"NUL in the lock ID":        {"r", holdfast.LockOptions{LockID: "\x00"}, false, "lock ID"},
		"owner":                     {"r", holdfast.LockOptions{Owner: "\xc0"}, false, "owner"},
		"host":                      {"r", holdfast.LockOptions{Host: long + "x"}, false, "host"},
		"comment":                   {"r", holdfast.LockOptions{Comment: "\x00"}, false, "comment"},
		"limit of an exclusive one": {"r", holdfast.LockOptions{Limit: 1}, false, "limit"},
		"negative limit":            {"r", holdfast.LockOptions{Limit: -1}, true, "limit"},
		"negative takeover delay":   {"r", holdfast.LockOptions{TakeoverDelay: -time.Second}, false, "takeover delay"},
		"takeover delay":            {"r", holdfast.LockOptions{TakeoverDelay: holdfast.Forever}, false, "takeover delay"},
		"TTL":                       {"r", holdfast.LockOptions{TTL: time.Millisecond}, false, "TTL"},
	} {
		t.Run(name, func(t *testing.T) {
			take, try := c.Lock, c.TryLock
			if test.shared {
				take, try = c.RLock, c.TryRLock
			}
			for _, err := range []error{
				second(take(t.Context(), test.resource, &test.o)),
				second(try(t.Context(), test.resource, &test.o)),
			} {
				if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("got error %v, want ErrInvalid that says %q", err, test.says)
				}
			}
		})
	}
	for name, err := range map[string]error{
		"ReleaseID":    second(c.ReleaseID(t.Context(), "")),
		"RenewID":      second(c.RenewID(t.Context(), "\xff", time.Hour)),
		"ForceRelease": second(c.ForceRelease(t.Context(), "", holdfast.HoldID{})),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: got error %v, want ErrInvalid", name, err)
		}
	}
	for _, op := range []drivertest.Op{drivertest.Acquire, drivertest.Renew, drivertest.Release, drivertest.List} {
		if n := f.Calls(op); n != 0 {
			t.Errorf("%d calls of %s were made", n, op)
		}
	}
	tryLock(t, c, long, &holdfast.LockOptions{LockID: long, Owner: long, Host: long, Comment: long})
}

// What is malformed in the Client's own options is refused with each lock, with
// LockOptions or without.
func TestS36_invalid_client_options(t *testing.T) {
	for name, test := range map[string]struct {
		options holdfast.Options
		says    string
	}{
		"owner":  {holdfast.Options{Owner: "\xff"}, "owner"},
		"host":   {holdfast.Options{Host: "a\x00b"}, "host"},
		"TTL":    {holdfast.Options{TTL: time.Millisecond}, "TTL 1ms"},
		"margin": {holdfast.Options{TTL: time.Second, Margin: 501 * time.Millisecond}, "margin"},
	} {
		t.Run(name, func(t *testing.T) {
			f := faulty(t, memlock.New(nil))
			c := newClient(t, f, &test.options)
			for _, o := range []*holdfast.LockOptions{nil, {}, {LockID: "id"}} {
				_, err := c.TryLock(t.Context(), "r", o)
				if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("options %+v: got error %v, want ErrInvalid that says %q", o, err, test.says)
				}
			}
			if n := f.Calls(drivertest.Acquire); n != 0 {
				t.Errorf("%d calls were made", n)
			}
		})
	}
	c := newClient(t, memlock.New(nil), nil)
	if _, err := c.TryLock(t.Context(), "", nil); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no resource, no options: got error %v", err)
	}
}

// Any names: either they are refused and nothing is sent, or they are shown as
// they were given.
func FuzzLockNames(f *testing.F) {
	for _, s := range []string{
		"r", "a/b", "$set.x", " ", "'; drop table holds; --", "€ ünïcode 🔒", "a\x00b", "\xff\xfe", "\u202e", "a\nb\r\t",
		strings.Repeat("x", 1024), strings.Repeat("é", 513), `{"a":"b"}`, "%zz", "..", "\\",
	} {
		f.Add(s, "id", "owner")
		f.Add("r", s, s)
	}
	f.Add("", "", "")
	valid := func(s string) bool {
		return len(s) <= 1024 && utf8.ValidString(s) && !strings.ContainsRune(s, 0)
	}
	f.Fuzz(func(t *testing.T, resource, lockID, owner string) {
		store := faulty(t, memlock.New(nil))
		c := newClient(t, store, &holdfast.Options{Owner: "default", Host: "host"})
		h, err := c.TryLock(t.Context(), resource, &holdfast.LockOptions{LockID: lockID, Owner: owner})
		if resource == "" || !valid(resource) || !valid(lockID) || !valid(owner) {
			if !errors.Is(err, holdfast.ErrInvalid) || store.Calls(drivertest.Acquire) != 0 {
				t.Fatalf("got %v, %v after %d calls", h, err, store.Calls(drivertest.Acquire))
			}
			if !utf8.ValidString(err.Error()) {
				t.Errorf("an error that is not UTF-8: %q", err)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if owner == "" {
			owner = "default"
		}
		if lockID == "" {
			lockID = h.LockID()
		}
		n := 0
		for s, err := range c.Holds(t.Context(), holdfast.Filter{Resource: resource, LockID: lockID, Owner: owner}) {
			if err != nil {
				t.Fatal(err)
			}
			n++
			if s.Resource != resource || s.LockID != lockID || s.Owner != owner || s.HoldID != h.ID() || s.Token != h.Token() {
				t.Errorf("locked %q with %q by %q, shown as %+v", resource, lockID, owner, s)
			}
		}
		if n != 1 || h.Resource() != resource || h.LockID() != lockID || lockID == "" {
			t.Errorf("%d holds of %q with lock ID %q", n, h.Resource(), h.LockID())
		}
		if ss, err := c.ReleaseID(t.Context(), lockID); err != nil || len(ss) != 1 {
			t.Errorf("released %v, %v", ss, err)
		}
	})
}
