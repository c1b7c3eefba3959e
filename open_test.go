package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// initializing is a store with an Init.
type initializing struct {
	driver.Store
	init   func(context.Context) error
	closed atomic.Int32
}

func (s *initializing) Init(ctx context.Context) error { return s.init(ctx) }

func (s *initializing) Close() error {
	s.closed.Add(1)
	return s.Store.Close()
}

func TestInit(t *testing.T) {
	inBubble(t, "once, before the first operation", func(t *testing.T) {
		var calls atomic.Int32
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error {
			calls.Add(1)
			time.Sleep(time.Second)
			return nil
		}}
		c := newClient(t, s, nil)
		if calls.Load() != 0 {
			t.Error("New ran Init")
		}
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() { unlock(t, lock(t, c, fmt.Sprint(i), nil)) })
		}
		all.Wait()
		if n := calls.Load(); n != 1 {
			t.Errorf("Init ran %d times", n)
		}
	})
	t.Run("repeated after a failure", func(t *testing.T) {
		broken := fmt.Errorf("%w: no index", driver.ErrUnusable)
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return broken }}
		c := newClient(t, s, nil)
		if _, err := c.TryLock(t.Context(), "r", nil); !errors.Is(err, holdfast.ErrUnusable) {
			t.Errorf("got error %v", err)
		}
		s.init = func(context.Context) error { return nil }
		tryLock(t, c, "r", nil)
	})
	t.Run("logged with its results", func(t *testing.T) {
		var log strings.Builder
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return nil }}
		c := newClient(t, s, &holdfast.Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		tryLock(t, c, "r", nil)
		if err := c.Close(); err != nil { // Close waits until everything is logged
			t.Fatal(err)
		}
		if want := "store=memory wakesWaiters=true"; strings.Count(log.String(), want) != 1 {
			t.Errorf("the log is\n%s, want %q in it once", &log, want)
		}
	})
	inBubble(t, "a hanging one times out for all callers", func(t *testing.T) {
		var calls atomic.Int32
		s := &initializing{Store: memlock.New(nil), init: func(ctx context.Context) error {
			calls.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}}
		c := newClient(t, s, &holdfast.Options{TTL: time.Second})
		began := time.Now()
		var all sync.WaitGroup
		for i := range 100 {
			all.Go(func() {
				_, err := c.TryLock(context.Background(), fmt.Sprint(i), nil)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, holdfast.ErrHeld) {
					t.Errorf("got error %v", err)
				}
				if want := "the store was not ready within 10s"; !strings.Contains(err.Error(), want) {
					t.Errorf("got error %q, want %q in it", err, want)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 10*time.Second || calls.Load() != 1 {
			t.Errorf("took %v and %d runs of Init, want 10 s and one", took, calls.Load())
		}
	})
	inBubble(t, "a failed one fails for all callers", func(t *testing.T) {
		var calls atomic.Int32
		broken := errors.New("no server")
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error {
			calls.Add(1)
			time.Sleep(time.Second)
			return broken
		}}
		c := newClient(t, s, nil)
		began := time.Now()
		var all sync.WaitGroup
		for i := range 10 {
			all.Go(func() {
				if _, err := c.TryLock(t.Context(), fmt.Sprint(i), nil); !errors.Is(err, broken) {
					t.Errorf("got error %v", err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != time.Second || calls.Load() != 1 {
			t.Errorf("took %v and %d runs of Init, want 1 s and one", took, calls.Load())
		}
		_, _ = c.TryLock(t.Context(), "r", nil)
		if calls.Load() != 2 {
			t.Error("the next operation did not call Init again")
		}
	})
	inBubble(t, "continues when its first caller leaves", func(t *testing.T) {
		type key struct{}
		s := &initializing{Store: memlock.New(nil), init: func(ctx context.Context) error {
			time.Sleep(2 * time.Second)
			if ctx.Value(key{}) != "v" {
				t.Error("the caller's values are missing")
			}
			return ctx.Err()
		}}
		c := newClient(t, s, nil)
		ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "v"), time.Second)
		defer cancel()
		first := locking(ctx, c, "r", nil)
		synctest.Wait()
		began := time.Now()
		if h := lock(t, c, "s", nil); time.Since(began) != 2*time.Second {
			t.Errorf("%q was granted after %v", h.Resource(), time.Since(began))
		}
		if r := <-first; !errors.Is(r.err, context.DeadlineExceeded) || r.at.Sub(began) != time.Second {
			t.Errorf("got error %v after %v", r.err, r.at.Sub(began))
		}
	})
	inBubble(t, "a hanging one delays neither others nor Close", func(t *testing.T) {
		s := &initializing{Store: memlock.New(nil), init: func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}}
		c := unswept(s, nil)
		first := locking(context.Background(), c, "r", nil)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Lock(ctx, "r", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v", err)
		}
		second := locking(context.Background(), c, "s", nil)
		synctest.Wait()
		began := time.Now()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		for _, w := range []<-chan result{first, second} {
			if r := <-w; !errors.Is(r.err, holdfast.ErrClosed) || r.at != began {
				t.Errorf("ended %v later with %v", r.at.Sub(began), r.err)
			}
		}
	})
}

// Close closes a store that Open made, but not one that was passed to New.
func TestOpenOwnsTheStore(t *testing.T) {
	s := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return nil }}
	broken := &initializing{Store: memlock.New(nil), init: func(context.Context) error { return driver.ErrUnusable }}
	register(t, "test-owned", s)
	register(t, "test-broken", broken)

	c, err := holdfast.Open(t.Context(), "test-owned:", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil || s.closed.Load() != 1 {
		t.Errorf("closed %d times, error %v", s.closed.Load(), err)
	}
	if err := c.Close(); err != nil || s.closed.Load() != 1 {
		t.Errorf("closed %d times, error %v", s.closed.Load(), err)
	}

	if _, err := holdfast.Open(t.Context(), "test-broken:", nil); !errors.Is(err, holdfast.ErrUnusable) {
		t.Errorf("got error %v", err)
	}
	if broken.closed.Load() != 1 {
		t.Error("an unusable store was left open")
	}

	s = &initializing{Store: memlock.New(nil), init: func(context.Context) error { return nil }}
	if err := unswept(s, nil).Close(); err != nil || s.closed.Load() != 0 {
		t.Errorf("closed %d times, error %v", s.closed.Load(), err)
	}
}

var registered sync.Map // URL scheme to *driver.Store

// register registers a store for Open and one test. Schemes cannot be removed, so with -count
// a later run finds its own store under the scheme.
func register(t *testing.T, scheme string, s driver.Store) {
	t.Helper()
	if _, known := registered.Swap(scheme, s); known {
		return
	}
	driver.Register(scheme, func(context.Context, *url.URL) (driver.Store, error) {
		s, _ := registered.Load(scheme)
		return s.(driver.Store), nil
	})
}

// Open refuses invalid options before it opens the store.
func TestOpenChecksOptions(t *testing.T) {
	for name, o := range map[string]*holdfast.Options{
		"TTL":       {TTL: time.Millisecond},
		"margin":    {Margin: time.Hour},
		"poll":      {Poll: time.Microsecond},
		"retention": {Retention: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := holdfast.Open(t.Context(), "memory:", o)
			if !errors.Is(err, holdfast.ErrInvalid) || c != nil {
				t.Errorf("opened with %+v: error %v", *o, err)
			}
		})
	}
}

// An Init that ignores its ctx delays no caller longer than one that does not.
func TestInitThatIsDeaf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fixed := make(chan struct{})
		defer close(fixed)
		s := &initializing{Store: memlock.New(nil), init: func(context.Context) error {
			<-fixed
			return nil
		}}
		c := holdfast.New(s, nil)
		began := time.Now()
		if _, err := c.Lock(t.Context(), "r", nil); err == nil || errors.Is(err, holdfast.ErrHeld) {
			t.Errorf("Lock: error %v", err)
		}
		if took := time.Since(began); took > 12*time.Second {
			t.Errorf("it took %v", took)
		}
		if err := c.Close(); err == nil {
			t.Error("Close does not return that a call of the store is still running")
		}
	})
}

// The error for an invalid argument names it, and nothing is sent.
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
		"tiny takeover delay":       {"r", holdfast.LockOptions{TakeoverDelay: -1}, false, "takeover delay -1ns"},
		"TTL":                       {"r", holdfast.LockOptions{TTL: time.Millisecond}, false, "TTL"},
		"negative TTL":              {"r", holdfast.LockOptions{TTL: -1}, false, "TTL -1ns"},
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
		"ReleaseID":    second(c.Admin().ReleaseID(t.Context(), "")),
		"RenewID":      second(c.Admin().RenewID(t.Context(), "\xff", time.Hour)),
		"ForceRelease": second(c.Admin().ForceRelease(t.Context(), "", holdfast.HoldID{})),
	} {
		if !errors.Is(err, holdfast.ErrInvalid) {
			t.Errorf("%s: got error %v, want ErrInvalid", name, err)
		}
	}
	for _, op := range []drivertest.Op{drivertest.Acquire, drivertest.Renew, drivertest.Release, drivertest.List} {
		if n := f.Calls(op); n != 0 {
			t.Errorf("the store got %d calls of %s", n, op)
		}
	}
	tryLock(t, c, long, &holdfast.LockOptions{LockID: long, Owner: long, Host: long, Comment: long})
}

// Errors quote a valid name in full, but only a part of an invalid one.
func TestS36_long_names(t *testing.T) {
	c := newClient(t, memlock.New(nil), nil)
	for _, long := range []string{strings.Repeat("x", 2000), strings.Repeat("\xff", 1000), strings.Repeat("é", 1<<20)} {
		for name, err := range map[string]error{
			"Lock":         second(c.Lock(t.Context(), long, nil)),
			"TryLock":      second(c.TryLock(t.Context(), "r", &holdfast.LockOptions{LockID: long, Owner: long})),
			"ReleaseID":    second(c.Admin().ReleaseID(t.Context(), long)),
			"RenewID":      second(c.Admin().RenewID(t.Context(), long, time.Hour)),
			"ForceRelease": second(c.Admin().ForceRelease(t.Context(), long, holdfast.HoldID{})),
			"Open":         second(holdfast.Open(t.Context(), long, nil)),
			"Open, scheme": second(holdfast.Open(t.Context(), strings.Repeat("x", 2000)+"://h", nil)),
			"mode":         new(holdfast.Mode).UnmarshalText([]byte(long)),
		} {
			if err == nil || len(err.Error()) > 400 || !utf8.ValidString(err.Error()) {
				t.Errorf("%s: got error %.500v", name, err)
			}
		}
	}
	valid := strings.Repeat("é", driver.MaxName/2)
	h := lock(t, c, valid, nil)
	_, err := c.TryLock(t.Context(), valid, nil)
	if mustBeHeld(t, err); !strings.Contains(err.Error(), valid) {
		t.Errorf("a valid name is cut: %v", err)
	}
	unlock(t, h)
}

// Every operation refuses Options that are out of range, with and without LockOptions, and
// sends nothing.
func TestS36_invalid_client_options(t *testing.T) {
	for field, values := range map[string][]any{
		"Owner":     {"\xff", "a\x00b", strings.Repeat("x", driver.MaxName+1)},
		"Host":      {"\xff", "a\x00b", strings.Repeat("x", driver.MaxName+1)},
		"TTL":       {time.Duration(-1), time.Duration(1), holdfast.MinTTL - 1, holdfast.MaxTTL + time.Millisecond},
		"Margin":    {time.Duration(-1), time.Duration(1), 50*time.Millisecond - 1, 15*time.Second + 1},
		"Retention": {time.Duration(-1), time.Duration(1), time.Minute - 1, holdfast.Forever},
		"Poll":      {time.Duration(-1), time.Duration(1), time.Microsecond, time.Millisecond - 1, holdfast.Forever},
		"NoSweep":   nil, "LeaveHolds": nil, "Logger": nil, "Trace": nil, "Clock": nil,
	} {
		for _, value := range values {
			t.Run(fmt.Sprintf("%s %.10v", field, value), func(t *testing.T) {
				options := holdfast.Options{NoSweep: true}
				reflect.ValueOf(&options).Elem().FieldByName(field).Set(reflect.ValueOf(value))
				f := faulty(t, memlock.New(nil))
				c := holdfast.New(&deaf{Store: f}, &options)
				defer c.Close()
				says := field
				if _, isName := value.(string); isName {
					says = strings.ToLower(field) // LockOptions have the same field
				}
				for call, err := range operations(t, c) {
					if !errors.Is(err, holdfast.ErrInvalid) || !strings.Contains(err.Error(), "invalid: "+says) {
						t.Errorf("%s: got error %v, want ErrInvalid that says %s", call, err, says)
					}
					if strings.Contains(err.Error(), "list holds") && !strings.HasPrefix(call, "Holds") {
						t.Errorf("%s: its error is that of another call: %v", call, err)
					}
				}
				for _, op := range []drivertest.Op{drivertest.Acquire, drivertest.Renew, drivertest.Release, drivertest.List} {
					if n := f.Calls(op); n != 0 {
						t.Errorf("the store got %d calls of %s", n, op)
					}
				}
				if opened, err := holdfast.Open(t.Context(), "memory:", &options); !errors.Is(err, holdfast.ErrInvalid) {
					t.Errorf("Open: %v, %v", opened, err)
				}
			})
		}
	}
	fields := reflect.TypeFor[holdfast.Options]().NumField()
	if n := 11; fields != n {
		t.Errorf("Options has %d fields, the table above %d", fields, n)
	}
	c := newClient(t, memlock.New(nil), nil)
	if _, err := c.TryLock(t.Context(), "", nil); !errors.Is(err, holdfast.ErrInvalid) {
		t.Errorf("no resource, no options: got error %v", err)
	}
}

// operations yields the error of each method of the Client and of its Admin that takes a ctx:
// twice, without and with LockOptions, if it takes them.
func operations(t *testing.T, c *holdfast.Client) iter.Seq2[string, error] {
	var methods []reflect.Value
	var names []string
	for _, v := range []reflect.Value{reflect.ValueOf(c), reflect.ValueOf(c.Admin())} {
		for i := range v.NumMethod() {
			if fn := v.Method(i); fn.Type().NumIn() > 0 && fn.Type().In(0) == reflect.TypeFor[context.Context]() {
				methods, names = append(methods, fn), append(names, v.Type().Method(i).Name)
			}
		}
	}
	return func(yield func(string, error) bool) {
		for i, fn := range methods {
			for _, o := range []*holdfast.LockOptions{nil, {LockID: "id", TTL: time.Minute}} {
				var args []reflect.Value
				for n := range fn.Type().NumIn() {
					switch in := fn.Type().In(n); in {
					case reflect.TypeFor[context.Context]():
						args = append(args, reflect.ValueOf(t.Context()))
					case reflect.TypeFor[string]():
						args = append(args, reflect.ValueOf("r"))
					case reflect.TypeFor[time.Duration]():
						args = append(args, reflect.ValueOf(time.Minute))
					case reflect.TypeFor[*holdfast.LockOptions]():
						args = append(args, reflect.ValueOf(o))
					case reflect.TypeFor[func(context.Context) error]():
						args = append(args, reflect.ValueOf(func(context.Context) error {
							t.Errorf("%s called its function", names[i])
							return nil
						}))
					default:
						args = append(args, reflect.Zero(in))
					}
				}
				results := fn.Call(args)
				last := results[len(results)-1]
				if last.Type() == reflect.TypeFor[error]() {
					err, _ := reflect.TypeAssert[error](last)
					if !yield(names[i], err) {
						return
					}
					continue
				}
				for _, err := range last.Seq2() { // the list operations
					err, _ := reflect.TypeAssert[error](err)
					if !yield(names[i], err) {
						return
					}
				}
			}
		}
		if len(methods) != 12 {
			t.Errorf("found %d methods", len(methods))
		}
	}
}

// Any name is either refused, without a request, or shown as it was given.
func FuzzLockNames(f *testing.F) {
	for _, s := range []string{
		"r", "a/b", "$set.x", " ", "'; drop table holds; --", "€ ünïcode 🔒", "a\x00b", "\xff\xfe", "\u202e", "a\nb\r\t",
		"\v", "\xf2", "é\"\xa9é", strings.Repeat("x", 1024), strings.Repeat("é", 513), `{"a":"b"}`, "%zz", "..", "\\",
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
				t.Errorf("the error is not UTF-8: %q", err)
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
		for s, err := range c.Admin().Holds(t.Context(), holdfast.Filter{Resource: resource, LockID: lockID, Owner: owner}) {
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
		if ss, err := c.Admin().ReleaseID(t.Context(), lockID); err != nil || len(ss) != 1 {
			t.Errorf("released %v, %v", ss, err)
		}
	})
}
