package holdfast_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/base"
	"github.com/holdfast-go/holdfast/driver/cas"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/observe"
)

// journal records what a Client does, in words.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

// take returns the records since the last take.
func (j *journal) take() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := j.lines
	j.lines = nil
	return lines
}

func (j *journal) trace() *holdfast.Trace {
	outcome := func(err error) string {
		for name, is := range map[string]error{
			"held": holdfast.ErrHeld, "released": holdfast.ErrReleased, "lost": holdfast.ErrLost, "closed": holdfast.ErrClosed, "fault": drivertest.ErrFault,
		} {
			if errors.Is(err, is) {
				return name
			}
		}
		if err == nil {
			return "ok"
		}
		return err.Error()
	}
	// Each function may use its Hold: no mutex is held during the calls.
	return &holdfast.Trace{
		AttemptEnd: func(_ context.Context, a holdfast.AttemptInfo) {
			j.note("attempt %s %v %v: %s", a.Resource, a.Mode, a.Took, outcome(a.Err))
		},
		WaitStart: func(ctx context.Context, w holdfast.WaitInfo) context.Context {
			j.note("waits for %s %v", w.Resource, w.Mode)
			return ctx
		},
		WaitEnd: func(_ context.Context, w holdfast.WaitInfo) {
			j.note("waited %s %v %v: %s", w.Resource, w.Mode, w.Took, outcome(w.Err))
		},
		HoldStart: func(ctx context.Context, i holdfast.HoldInfo) context.Context {
			j.note("acquired %s, alive %v", i.Hold.Resource(), i.Hold.Left() > 0)
			return ctx
		},
		HoldEnd: func(_ context.Context, i holdfast.HoldInfo) {
			j.note("held %s for %v, alive %v: %s", i.Hold.Resource(), i.Took.Round(time.Second), i.Hold.Left() > 0, outcome(i.Err))
		},
		Renewed: func(_ context.Context, i holdfast.CallInfo) {
			j.note("renewed %s, alive %v: %s", i.Hold.Resource(), i.Hold.Left() > 0, outcome(i.Err))
		},
		Released: func(_ context.Context, i holdfast.CallInfo) {
			j.note("released %s, alive %v: %s", i.Hold.Resource(), i.Hold.Left() > 0, outcome(i.Err))
		},
		Failed: func(_ context.Context, i holdfast.FailInfo) {
			j.note("failed %s %v: %s", i.Resource, i.Mode, outcome(i.Err))
		},
	}
}

func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		store := memlock.New(nil)
		f := faulty(t, store,
			on(drivertest.Acquire, drivertest.Fault{LoseReply: true}, 2),
			on(drivertest.Renew, drivertest.Fault{LoseRequest: true}, 2))
		c := unswept(f, &holdfast.Options{Trace: j.trace()})
		d := newClient(t, store, nil)
		check := func(what string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := j.take(); !slices.Equal(got, want) {
				t.Errorf("%s:\n got %q\nwant %q", what, got, want)
			}
		}

		h := lock(t, c, "a", nil)
		check("a lock", "attempt a exclusive 0s: ok", "acquired a, alive true")
		b, err := c.TryRLock(t.Context(), "b", nil)
		if err != nil {
			t.Fatal(err)
		}
		check("a reply lost", "attempt b shared 0s: fault", "attempt b shared 0s: ok", "acquired b, alive true")
		_, err = c.TryLock(t.Context(), "a", nil)
		mustBeHeld(t, err)
		check("a refusal", "attempt a exclusive 0s: held", "failed a exclusive: held")
		unlock(t, b)
		unlock(t, b)
		check("a release", "held b for 0s, alive false: released", "released b, alive false: ok")

		if err := h.Renew(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		check("a renewal", "renewed a, alive true: ok")
		if err := h.Renew(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		check("a request lost", "renewed a, alive true: fault", "renewed a, alive true: ok")

		other := lock(t, d, "w", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err = c.Lock(ctx, "w", nil)
		mustBeHeld(t, err)
		check("a wait in vain", "attempt w exclusive 0s: held", "waits for w exclusive", "attempt w exclusive 0s: held",
			"waited w exclusive 500ms: held", "failed w exclusive: held")
		waiting := locking(t.Context(), c, "w", nil)
		time.Sleep(500 * time.Millisecond)
		unlock(t, other)
		w := <-waiting
		if w.err != nil {
			t.Fatal(w.err)
		}
		check("a wait", "attempt w exclusive 0s: held", "waits for w exclusive", "attempt w exclusive 0s: held", "attempt w exclusive 0s: ok",
			"waited w exclusive 500ms: ok", "acquired w, alive true")

		if _, err := c.Admin().ReleaseID(t.Context(), w.hold.LockID()); err != nil {
			t.Fatal(err)
		}
		check("a release by lock ID", "held w for 0s, alive false: released", "released w, alive false: ok")
		l := lock(t, c, "l", nil)
		synctest.Wait()
		j.take()
		if _, err := c.Admin().ForceRelease(t.Context(), "l", l.ID()); err != nil {
			t.Fatal(err)
		}
		check("a loss", "held l for 0s, alive false: lost")
		if err := l.Unlock(t.Context()); !errors.Is(err, holdfast.ErrLost) {
			t.Error(err)
		}
		check("an unlock of a lost lock")
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		check("close", "held a for 1s, alive false: closed", "released a, alive false: ok")
	})
}

// A Trace without functions, and with each function alone.
func TestTraceIsOptional(t *testing.T) {
	for _, trace := range []*holdfast.Trace{
		nil, {}, {AttemptStart: func(context.Context, holdfast.AttemptInfo) context.Context { return nil }},
		{AttemptEnd: func(context.Context, holdfast.AttemptInfo) {}},
		{WaitStart: func(context.Context, holdfast.WaitInfo) context.Context { return nil }},
		{WaitEnd: func(context.Context, holdfast.WaitInfo) {}},
		{HoldStart: func(context.Context, holdfast.HoldInfo) context.Context { return nil }},
		{HoldEnd: func(context.Context, holdfast.HoldInfo) {}}, {Renewed: func(context.Context, holdfast.CallInfo) {}},
		{Released: func(context.Context, holdfast.CallInfo) {}}, {Failed: func(context.Context, holdfast.FailInfo) {}},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			c, d := newClient(t, store, &holdfast.Options{Trace: trace}), newClient(t, store, nil)
			h := lock(t, d, "r", nil)
			waiting := locking(t.Context(), c, "r", nil)
			time.Sleep(time.Minute)
			unlock(t, h)
			granted(t, waiting)
			if _, err := d.Admin().ForceRelease(t.Context(), "r", holdfast.HoldID{}); err != nil {
				t.Error(err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// The log and the errors of a Client contain no comment and no password, and say what went
// wrong.
func TestLogHasNoSecrets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var buf bytes.Buffer
		var mu sync.Mutex
		log := slog.New(slog.NewTextHandler(lockedWriter{&mu, &buf}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		store := memlock.New(nil)
		register(t, "test-secret", faulty(t, store, drivertest.RandomFaults(3, 40)))
		const url = "test-secret://user:hunter2@host/path?token=hunter2"
		c, err := holdfast.Open(t.Context(), url, &holdfast.Options{Logger: log, TTL: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			r := fmt.Sprint("res", i)
			h, err := c.Lock(t.Context(), r, &holdfast.LockOptions{Comment: "hunter2", LockID: "shown"})
			if err != nil {
				log.Info("error", "error", err)
				continue
			}
			time.Sleep(3 * time.Second)
			if i%3 == 0 {
				_, _ = newClient(t, store, nil).Admin().ForceRelease(t.Context(), r, h.ID())
				time.Sleep(3 * time.Second)
			}
			log.Info("error", "error", h.Unlock(t.Context()))
		}
		_ = c.Close()
		for _, bad := range []string{"no-such-scheme://user:hunter2@host", "test-secret://user:hunter2@host:port:%zz", "://hunter2"} {
			_, err := holdfast.Open(t.Context(), bad, nil)
			if err == nil {
				t.Errorf("Open accepted %q", bad)
			}
			log.Info("error", "error", err)
		}
		mu.Lock()
		defer mu.Unlock()
		text := buf.String()
		if strings.Contains(text, "hunter2") {
			t.Errorf("a secret was logged:\n%s", text)
		}
		for _, want := range []string{"lock acquired", "lock lost", "renewal without an answer", "no answer to an acquire", "lockID=shown", "resource=res"} {
			if !strings.Contains(text, want) {
				t.Errorf("%q was not logged:\n%s", want, text)
			}
		}
	})
}

type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (w lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// A caller's error is its own: it may change the holders, whatever other callers got and the
// Trace reads.
func TestErrorsAreNotShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		look := func(resource string, err error) {
			var held *holdfast.HeldError
			if !errors.As(err, &held) {
				return
			}
			if held.BySelf && resource[0] != 's' {
				t.Errorf("%q is held by itself", resource)
			}
			for _, h := range held.Holders {
				if h.Comment != "" {
					t.Error("the Trace got a caller's change of its error")
				}
			}
		}
		trace := &holdfast.Trace{
			AttemptEnd: func(_ context.Context, info holdfast.AttemptInfo) { look(info.Resource, info.Err) },
			WaitEnd:    func(_ context.Context, info holdfast.WaitInfo) { look(info.Resource, info.Err) },
			Failed:     func(_ context.Context, info holdfast.FailInfo) { look(info.Resource, info.Err) },
		}
		c, d := newClient(t, store, &holdfast.Options{Trace: trace}), newClient(t, store, nil)
		lock(t, d, "r", nil)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		var waits []<-chan result
		for range 10 {
			waits = append(waits, locking(ctx, c, "r", nil))
		}
		for _, w := range waits {
			held := heldError(t, (<-w).err)
			if held.Holders[0].Comment != "" {
				t.Error("one error has the holders of another")
			}
			held.Holders[0].Comment = "mine"
		}
		mine := &holdfast.LockOptions{LockID: "mine"}
		lock(t, c, "s", mine)
		for range 10 {
			_, err := c.TryLock(t.Context(), "s", mine)
			held := heldError(t, err)
			if !held.BySelf {
				t.Errorf("got %+v", held)
			}
			held.Holders[0].Comment = "mine"
		}
		err := c.Do(t.Context(), "s2", nil, func(ctx context.Context) error {
			_, err := c.TryLock(ctx, "s2", nil)
			return err
		})
		if held := heldError(t, err); held.Resource == "s2" {
			held.Holders[0].Comment = "mine"
		}
	})
}

// New calls ClientStart even while all other calls wait.
func TestClientStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		var all []*holdfast.Client
		see := &holdfast.Trace{ClientStart: func(c *holdfast.Client) { all = append(all, c) }}
		hang := &holdfast.Trace{AttemptStart: func(ctx context.Context, _ holdfast.AttemptInfo) context.Context {
			<-hangs
			return ctx
		}}
		opts := &holdfast.Options{Trace: holdfast.Traces(hang, see, nil, see)}
		for n := range 3 {
			c := newClient(t, memlock.New(nil), opts)
			if len(all) != 2*n+2 || all[2*n] != c || all[2*n+1] != c {
				t.Errorf("%d calls after %d Clients", len(all), n+1)
			}
			lock(t, c, "r", nil)
			if live := all[2*n].Admin().Live(); len(live) != 1 {
				t.Errorf("live: %v", live)
			}
		}
		close(hangs)
	})
}

// An attempt that Close interrupts has the error ErrClosed.
func TestTraceAttemptClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		never := make(chan struct{})
		defer close(never)
		f := faulty(t, memlock.New(nil), on(drivertest.Acquire, drivertest.Fault{HoldRequest: never}))
		c := holdfast.New(f, &holdfast.Options{NoSweep: true, Trace: j.trace()})
		waits := locking(t.Context(), c, "r", nil)
		synctest.Wait()
		_ = c.Close()
		if err := (<-waits).err; !errors.Is(err, holdfast.ErrClosed) {
			t.Error(err)
		}
		if got := j.take(); len(got) == 0 || !strings.HasSuffix(got[0], "closed") {
			t.Errorf("told of %q", got)
		}
	})
}

// pathKey is the key of the values that the Start functions of pathTrace add to their ctx.
type pathKey struct{}

func inPath(ctx context.Context, name string) context.Context {
	outer, _ := ctx.Value(pathKey{}).(string)
	return context.WithValue(ctx, pathKey{}, outer+"/"+name)
}

// pathTrace records the ctx of each call. Its Start functions derive a ctx.
func pathTrace(j *journal) *holdfast.Trace {
	note := func(ctx context.Context, what string) {
		if ctx.Err() != nil {
			what += " with a ctx that has ended"
		}
		j.note("%s %v", what, ctx.Value(pathKey{}))
	}
	return &holdfast.Trace{
		AttemptStart: func(ctx context.Context, _ holdfast.AttemptInfo) context.Context { return inPath(ctx, "attempt") },
		AttemptEnd:   func(ctx context.Context, _ holdfast.AttemptInfo) { note(ctx, "attempted") },
		WaitStart:    func(ctx context.Context, _ holdfast.WaitInfo) context.Context { return inPath(ctx, "wait") },
		WaitEnd:      func(ctx context.Context, _ holdfast.WaitInfo) { note(ctx, "waited") },
		HoldStart:    func(ctx context.Context, _ holdfast.HoldInfo) context.Context { return inPath(ctx, "hold") },
		HoldEnd:      func(ctx context.Context, _ holdfast.HoldInfo) { note(ctx, "held") },
		Renewed:      func(ctx context.Context, _ holdfast.CallInfo) { note(ctx, "renewed") },
		Released:     func(ctx context.Context, _ holdfast.CallInfo) { note(ctx, "released") },
		Failed:       func(ctx context.Context, _ holdfast.FailInfo) { note(ctx, "failed") },
	}
}

// The ctx of each function comes from its Start function or from the caller, even if the
// caller's ctx has ended.
func TestTraceContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		store := memlock.New(nil)
		c, d := unswept(store, &holdfast.Options{Trace: pathTrace(&j)}), newClient(t, store, nil)
		defer c.Close()
		other := lock(t, d, "r", nil)
		ctx, cancel := context.WithCancel(inPath(t.Context(), "caller"))
		first := locking(ctx, c, "r", nil)
		synctest.Wait()
		queued := locking(ctx, c, "r", nil)
		synctest.Wait()
		unlock(t, other)
		h := (<-first).hold
		synctest.Wait() // the other is refused; they share a subscription
		cancel()
		<-queued
		time.Sleep(12 * time.Second) // beyond a renewal
		unlock(t, h)
		synctest.Wait()
		want := []string{
			"attempted /caller/attempt",
			"attempted /caller/wait/attempt", "attempted /caller/wait/attempt", "waited /caller/wait",
			"attempted /caller/wait/attempt", "waited /caller/wait", "failed /caller/wait",
			"renewed /caller/wait/hold", "held /caller/wait/hold", "released /caller/wait/hold",
		}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("a wait:\n got %q\nwant %q", got, want)
		}
		unlock(t, lock(t, c, "r", nil))
		synctest.Wait()
		want = []string{"attempted /attempt", "held /hold", "released /hold"}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("no wait:\n got %q\nwant %q", got, want)
		}
	})
}

// If the call of a Start function was left out, the functions that follow get the ctx of the
// caller.
func TestTraceContextWithoutStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		trace := pathTrace(&j)
		block := make(chan struct{})
		trace.Failed = func(context.Context, holdfast.FailInfo) { <-block }
		c := unswept(memlock.New(nil), &holdfast.Options{Trace: trace})
		defer c.Close()
		for range 10_001 {
			if _, err := c.Lock(t.Context(), "", nil); !errors.Is(err, holdfast.ErrInvalid) {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		h := lock(t, c, "r", nil)
		close(block)
		synctest.Wait()
		if _, err := c.Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got, want := j.take(), []string{"held <nil>"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestTraces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		part := func(name string) *holdfast.Trace {
			return &holdfast.Trace{
				HoldStart: func(ctx context.Context, _ holdfast.HoldInfo) context.Context { return inPath(ctx, name) },
				HoldEnd:   func(ctx context.Context, _ holdfast.HoldInfo) { j.note("%s: held %v", name, ctx.Value(pathKey{})) },
			}
		}
		none := &holdfast.Trace{HoldStart: func(context.Context, holdfast.HoldInfo) context.Context { return nil }}
		only := &holdfast.Trace{Released: func(ctx context.Context, _ holdfast.CallInfo) { j.note("released %v", ctx.Value(pathKey{})) }}
		c := newClient(t, memlock.New(nil), &holdfast.Options{
			Trace: holdfast.Traces(nil, part("a"), none, only, part("b"), &holdfast.Trace{}),
		})
		unlock(t, lock(t, c, "r", nil))
		synctest.Wait()
		want := []string{"a: held /a/b", "b: held /a/b", "released /a/b"}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		d := newClient(t, memlock.New(nil), &holdfast.Options{Trace: holdfast.Traces()})
		unlock(t, lock(t, d, "r", nil))
	})
}

// The times are the times of the events, however late the functions are called.
func TestTraceTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		began := time.Now()
		note := func(what string, start time.Time, took time.Duration) {
			time.Sleep(time.Second)
			j.note("%s at %v for %v", what, start.Sub(began), took)
		}
		trace := &holdfast.Trace{
			AttemptEnd: func(_ context.Context, i holdfast.AttemptInfo) { note("attempt", i.Start, i.Took) },
			WaitEnd:    func(_ context.Context, i holdfast.WaitInfo) { note("wait", i.Start, i.Took) },
			HoldEnd:    func(_ context.Context, i holdfast.HoldInfo) { note("hold", i.Start, i.Took) },
			Renewed:    func(_ context.Context, i holdfast.CallInfo) { note("renewal", i.Start, i.Took) },
			Released:   func(_ context.Context, i holdfast.CallInfo) { note("release", i.Start, i.Took) },
			Failed:     func(_ context.Context, i holdfast.FailInfo) { note("failure", i.Start, i.Took) },
		}
		store := memlock.New(nil)
		slow := faulty(t, store, delayed(drivertest.Acquire, 100*time.Millisecond), delayed(drivertest.Renew, 200*time.Millisecond),
			delayed(drivertest.Release, 300*time.Millisecond))
		c, d := newClient(t, slow, &holdfast.Options{Trace: trace}), newClient(t, store, nil)
		other := lock(t, d, "r", nil)
		if _, err := c.TryLock(t.Context(), "r", nil); !errors.Is(err, holdfast.ErrHeld) {
			t.Fatal(err)
		}
		waiting := locking(t.Context(), c, "r", nil)
		time.Sleep(900 * time.Millisecond)
		unlock(t, other)
		h := (<-waiting).hold // at 1.1 s
		if err := h.Renew(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		unlock(t, h)
		time.Sleep(time.Minute)
		want := []string{
			"attempt at 0s for 100ms", "failure at 0s for 100ms",
			"attempt at 100ms for 100ms",
			"attempt at 200ms for 100ms", // the subscription is effective
			"attempt at 1s for 100ms", "wait at 200ms for 900ms",
			"renewal at 1.1s for 200ms", "hold at 1.1s for 200ms", "release at 1.3s for 300ms",
		}
		if got := j.take(); !slices.Equal(got, want) {
			t.Errorf("\n got %q\nwant %q", got, want)
		}
	})
}

// Failed is called once for a call that is granted nothing, whatever the reason, and not for
// a call that was granted a lock.
func TestTraceFailed(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, test := range map[string]struct {
		call  func(ctx context.Context, c *holdfast.Client) error
		want  error
		asked bool
	}{
		"invalid": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ctx, "", nil)
			return err
		}, holdfast.ErrInvalid, false},
		"reentry": {func(ctx context.Context, c *holdfast.Client) error {
			return c.Do(ctx, "own", nil, func(ctx context.Context) error {
				_, err := c.Lock(ctx, "own", nil)
				return err
			})
		}, holdfast.ErrHeld, false},
		"refused": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.TryRLock(ctx, "r", nil)
			return err
		}, holdfast.ErrHeld, true},
		"a ctx that has ended": {func(_ context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ended, "r", nil)
			return err
		}, context.Canceled, false},
		"a ctx that has ended, later": {func(ctx context.Context, c *holdfast.Client) error {
			if err := c.Do(ctx, "free", nil, func(context.Context) error { return nil }); err != nil {
				return err
			}
			_, err := c.TryLock(ended, "r", nil)
			return err
		}, context.Canceled, false},
		"a ctx that ends behind others": {func(ctx context.Context, c *holdfast.Client) error {
			others, cancel := context.WithCancel(ctx)
			defer cancel()
			go func() { _, _ = c.Lock(others, "slow", nil) }()
			synctest.Wait()
			ctx, stop := context.WithTimeout(ctx, time.Second)
			defer stop()
			_, err := c.Lock(ctx, "slow", nil)
			return err
		}, context.DeadlineExceeded, true},
		"a wait that ends": {func(ctx context.Context, c *holdfast.Client) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			_, err := c.Lock(ctx, "r", nil)
			return err
		}, context.DeadlineExceeded, true},
		"closed": {func(ctx context.Context, c *holdfast.Client) error {
			go c.Close()
			_, err := c.Lock(ctx, "r", nil)
			return err
		}, holdfast.ErrClosed, true},
		"no answer": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ctx, "silent", nil)
			return err
		}, drivertest.ErrFault, true},
		"granted": {func(ctx context.Context, c *holdfast.Client) error {
			_, err := c.Lock(ctx, "free", nil)
			return err
		}, nil, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			var told []error
			var asked bool
			trace := &holdfast.Trace{Failed: func(_ context.Context, i holdfast.FailInfo) {
				if i.Resource == "slow" && errors.Is(i.Err, context.Canceled) {
					return // of the first one
				}
				told, asked = append(told, i.Err), i.Asked
			}}
			store := memlock.New(nil)
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				f := drivertest.Fault{LoseRequest: len(c.Refs) > 0 && c.Refs[0].Resource == "silent"}
				if len(c.Refs) > 0 && c.Refs[0].Resource == "slow" {
					f.HoldRequest = after(5 * time.Second)
				}
				return f
			})
			c, d := newClient(t, f, &holdfast.Options{Trace: trace}), newClient(t, store, nil)
			lock(t, d, "r", nil)
			err := test.call(t.Context(), c)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			synctest.Wait()
			switch {
			case test.want == nil && len(told) != 0:
				t.Errorf("told of %v", told)
			case test.want != nil && (len(told) != 1 || !errors.Is(told[0], test.want)):
				t.Errorf("told of %v, want %v", told, test.want)
			case asked != test.asked && name != "closed": // either is possible
				t.Errorf("asked: %v", asked)
			}
		})
	}
}

// A renewal that finds its hold gone is reported before the loss.
func TestTraceRenewedLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		store := memlock.New(nil)
		c, d := newClient(t, store, &holdfast.Options{Trace: j.trace()}), newClient(t, store, nil)
		h := lock(t, c, "r", nil)
		if _, err := d.Admin().ForceRelease(t.Context(), "r", h.ID()); err != nil {
			t.Fatal(err)
		}
		mustEnd(t, h, time.Minute, holdfast.ErrForced)
		synctest.Wait()
		want := []string{
			"attempt r exclusive 0s: ok", "acquired r, alive false", "renewed r, alive false: lost",
			"held r for 10s, alive false: lost",
		}
		got := j.take()
		got[1] = want[1] // it may have been reported before
		if !slices.Equal(got, want) {
			t.Errorf("\n got %q\nwant %q", got, want)
		}
	})
}

func TestLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{LoseRequest: true}))
		c := newClient(t, f, nil)
		lock(t, c, "kept", nil)
		left := lock(t, c, "left", &holdfast.LockOptions{TTL: time.Minute, NoKeepAlive: true})
		describe := func() (all []string) {
			for _, l := range c.Admin().Live() {
				all = append(all, fmt.Sprintf("%s %v of %v %v", l.Hold.Resource(), l.Left, l.TTL, l.KeptAlive))
			}
			return all
		}
		check := func(want ...string) {
			t.Helper()
			if got := describe(); !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		check("kept 28.125s of 30s true", "left 56.25s of 1m0s false")
		time.Sleep(28 * time.Second) // no renewal succeeds
		check("kept 125ms of 30s true", "left 28.25s of 1m0s false")
		time.Sleep(time.Second)
		check("left 27.25s of 1m0s false")
		unlock(t, left)
		check()
	})
}

func TestLiveForever(t *testing.T) {
	c := newClient(t, memlock.New(nil), nil)
	lock(t, c, "r", &holdfast.LockOptions{TTL: holdfast.Forever})
	lock(t, c, "s", nil)
	if got := c.Admin().Live(); len(got) != 2 || got[1].Left != holdfast.Forever || got[1].TTL != holdfast.Forever {
		t.Errorf("got %+v", got)
	}
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memlock.New(nil)
		c, d := newClient(t, store, nil), newClient(t, store, nil)
		lock(t, c, "free", nil)
		h := lock(t, d, "r", nil)
		began := time.Now()
		var waits []<-chan result
		for range 3 {
			waits = append(waits, locking(t.Context(), c, "r", &holdfast.LockOptions{LockID: fmt.Sprint(len(waits))}))
			time.Sleep(time.Second)
		}
		waiting := c.Admin().Waiting()
		for i, w := range waiting {
			if w.LockID != fmt.Sprint(i) || w.Resource != "r" || w.Client != c || w.Start.Sub(began) != time.Duration(i)*time.Second {
				t.Errorf("waiter %d: %+v", i, w)
			}
		}
		if len(waiting) != 3 {
			t.Errorf("Waiting returned %d", len(waiting))
		}
		unlock(t, h)
		for i, w := range waits {
			r := <-w
			if got := len(c.Admin().Waiting()); got != 2-i {
				t.Errorf("%d wait after %d grants", got, i+1)
			}
			unlock(t, r.hold)
		}
	})
}

// No exported value prints a hold ID or a password, and printing races with nothing.
func TestPrinted(t *testing.T) {
	const password = "hunTer2-Xyzzy"
	ctx := t.Context()
	mem := memlock.New(nil)
	c := newClient(t, mem, nil)
	h := lock(t, c, "r", nil)
	id := h.ID()
	place := driver.NewPlaceID()
	ref := driver.HoldRef{Resource: "r", LockID: "id", HoldID: id, Token: h.Token()}
	status := driver.Status{Resource: "r", LockID: "id", HoldID: id, Token: h.Token()}
	info := holdfast.LockInfo{Client: c, Resource: "r", LockID: "id"}
	attempt := holdfast.AttemptInfo{LockInfo: info, HoldID: id}
	request := driver.AcquireRequest{Resource: "r", LockID: "id", HoldID: id, Place: place}
	held := &holdfast.HeldError{Resource: "r", Holders: []driver.Status{status}}
	record := model.Record{Resource: "r", Holds: []model.Hold{{LockID: "id", HoldID: id}}}
	names, migrations := adapt.NewNames(c, nil), adapt.NewMigrations(c, "m", nil)
	mutex, elector := adapt.NewMutex(ctx, c, "x", nil), adapt.NewElector(c, "e", nil)
	locker := adapt.NewLocker[adapt.Unlocker](c, nil)
	served, err := httplock.New("http://127.0.0.1:1", &httplock.Options{Token: password})
	if err != nil {
		t.Fatal(err)
	}
	handler, err := httpfence.New(http.NotFoundHandler(), &httpfence.Options{
		Resource: func(*http.Request) string { return "r" }, Newest: &httpfence.Memory{},
		Trust: func(*http.Request, httpfence.Token) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	wireRef, refusal := wire.RefOfHold(ref), wire.HeldRefusal(held)
	refusal.HoldID = id
	renewal, renewed := wire.Renewal{Ref: wireRef}, wire.RenewResult{HoldID: id}
	release, released := wire.Release{Ref: wireRef, PlaceID: place}, wire.ReleaseResult{HoldID: id, PlaceID: place}
	node := &url.URL{Scheme: "https", User: url.UserPassword("u", password), Host: "h"}
	values := []any{
		h, c, c.Admin().Live()[0],
		info, attempt, holdfast.AttemptInfo{LockInfo: info, HoldID: id, Err: held},
		holdfast.WaitInfo{LockInfo: info}, holdfast.WaitInfo{Err: held},
		holdfast.HoldInfo{Hold: h}, holdfast.CallInfo{Hold: h}, holdfast.FailInfo{LockInfo: info, Err: held},
		ref, status, request, held,
		driver.RenewRequest{HoldRef: ref}, driver.ReleaseRequest{HoldRef: ref, Place: place},
		record.Holds[0], record, model.Edit(record, 0),
		mem.Store, &base.Update{}, base.Change{Record: record}, base.Entry{Record: record},
		mutex, names, elector, migrations, locker,
		observe.New(nil, func(context.Context, observe.Sample) {}),
		httplock.Options{Token: password}, served, mem,
		eslock.New(performer{node}, nil),
		&httpfence.Memory{}, handler,
		cas.Change{New: record},
		wire.AcquireRequestOf(request), wire.GrantOf(request, driver.Grant{}), wireRef, wire.Hold{HoldID: id}, wire.HoldList{Holds: []wire.Hold{{HoldID: id}}},
		renewal, wire.RenewRequest{Holds: []wire.Renewal{renewal}}, renewed, wire.RenewAnswer{Results: []wire.RenewResult{renewed}},
		release, wire.ReleaseRequest{Holds: []wire.Release{release}}, released, wire.ReleaseAnswer{Results: []wire.ReleaseResult{released}},
		wire.ForceRequest{Ref: wireRef}, refusal.Held, refusal, wire.Refusal{}, wire.End{Error: &refusal},
	}

	// Renewals change the hold, as the Client's do, and callers acquire and release locks.
	stop := make(chan struct{})
	var busy sync.WaitGroup
	defer busy.Wait()
	defer close(stop)
	for _, use := range []func() error{
		func() error { return h.Renew(ctx, 0) },
		func() error { return errors.Join(names.Lock(ctx, "n"), names.Unlock(ctx, "n")) },
		func() error { return errors.Join(migrations.Lock(ctx, nil), migrations.Unlock(ctx, nil)) },
		func() error { mutex.Lock(); mutex.Unlock(); return elector.IsLeader(ctx) }, //nolint:staticcheck // printed at the same time
	} {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				if err := use(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	secrets := []string{"PANIC", password, id.String(), hex.EncodeToString(id[:4]), strings.Trim(fmt.Sprint(id[:]), "[]"),
		strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%#v", id[:]), "[]byte{"), "}")}
	for _, value := range values {
		name := fmt.Sprintf("%T", value)
		for _, value := range []any{value, []any{value}, struct{ In any }{value}} {
			var all bytes.Buffer
			for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				fmt.Fprintf(&all, form+"\n", value)
			}
			slog.New(slog.NewTextHandler(&all, nil)).Info("", "value", value)
			for _, secret := range secrets {
				if strings.Contains(strings.ToLower(all.String()), strings.ToLower(secret)) {
					t.Errorf("%s: printed %s:\n%s", name, secret, all.String())
					break
				}
			}
		}
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("", "value", value)
		for _, secret := range secrets {
			if strings.Contains(log.String(), secret) {
				t.Errorf("%s: logged %s: %s", name, secret, log.String())
			}
		}
	}
	if got, want := fmt.Sprintf("%v", h), fmt.Sprintf(`exclusive hold of "r", token %d`, h.Token()); got != want {
		t.Errorf("a hold is printed as %s, want %s", got, want)
	}
	var none *holdfast.Hold
	slog.New(slog.NewTextHandler(io.Discard, nil)).Info("", "none", none)
	if got := fmt.Sprint(none); got != "<nil>" {
		t.Errorf("no hold is printed as %s", got)
	}
}

// performer is an Elasticsearch client with a URL.
type performer struct{ node *url.URL }

func (performer) Perform(*http.Request) (*http.Response, error) { return nil, errors.New("no answer") }

// hooked is a slog.Handler whose Handle and Enabled call functions.
type hooked struct {
	handle, enabled func()
}

func (h hooked) Handle(context.Context, slog.Record) error { h.handle(); return nil }
func (h hooked) Enabled(context.Context, slog.Level) bool  { h.enabled(); return true }
func (h hooked) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h hooked) WithGroup(string) slog.Handler             { return h }

// starting returns a Start function of a Trace that calls do first.
func starting[I any](do func()) func(context.Context, I) context.Context {
	return func(ctx context.Context, _ I) context.Context {
		do()
		return ctx
	}
}

// fullTrace returns a Trace whose functions all call do, except ClientStart, which New waits
// for.
func fullTrace(do func()) *holdfast.Trace {
	return &holdfast.Trace{
		AttemptStart: starting[holdfast.AttemptInfo](do),
		AttemptEnd:   func(context.Context, holdfast.AttemptInfo) { do() },
		WaitStart:    starting[holdfast.WaitInfo](do),
		WaitEnd:      func(context.Context, holdfast.WaitInfo) { do() },
		HoldStart:    starting[holdfast.HoldInfo](do),
		HoldEnd:      func(context.Context, holdfast.HoldInfo) { do() },
		Renewed:      func(context.Context, holdfast.CallInfo) { do() },
		Released:     func(context.Context, holdfast.CallInfo) { do() },
		Failed:       func(context.Context, holdfast.FailInfo) { do() },
	}
}

// everyHook returns, for each kind of user code that a Client calls, Options in which only
// that code is set, and calls do.
func everyHook(do func()) map[string]*holdfast.Options {
	none := func() {}
	hooks := map[string]*holdfast.Options{
		"Logger":         {Logger: slog.New(hooked{do, none})},
		"Logger.Enabled": {Logger: slog.New(hooked{none, do})},
	}
	full := reflect.ValueOf(fullTrace(do)).Elem()
	for i := range full.NumField() {
		if hook := full.Field(i); !hook.IsNil() {
			one := new(holdfast.Trace)
			reflect.ValueOf(one).Elem().Field(i).Set(hook)
			hooks[full.Type().Field(i).Name] = &holdfast.Options{Trace: one}
		}
	}
	return hooks
}

// User code never costs a lock, even if it does not return: locks are granted, renewed and
// released, and the contexts of lost holds end before the resource is granted to another
// client.
func TestUserCodeDelaysNobody(t *testing.T) {
	for name := range everyHook(nil) {
		inBubble(t, name, func(t *testing.T) {
			block := make(chan struct{})
			defer close(block)
			opts := everyHook(func() { <-block })[name]
			opts.TTL = 10 * time.Second
			var failing, hanging atomic.Bool
			store := memlock.New(nil)
			f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
				switch {
				case c.Op == drivertest.Renew && hanging.Load():
					return drivertest.Fault{HoldRequest: block}
				case c.Op == drivertest.Renew && failing.Load():
					// Renewals fail in every other second: if every other call failed, all
					// failures could be calls for one batch.
					return drivertest.Fault{LoseRequest: time.Now().Second()%2 == 0}
				}
				return drivertest.Fault{}
			})
			c, d := unswept(f, opts), newClient(t, store, nil)
			var holds []*holdfast.Hold
			for i := range 100 {
				holds = append(holds, lock(t, c, fmt.Sprint(i), nil))
			}
			waiting := locking(t.Context(), c, "0", nil)
			synctest.Wait()
			unlock(t, holds[0])
			unlock(t, granted(t, waiting))
			holds = holds[1:]
			failing.Store(true)
			time.Sleep(time.Minute)
			for _, h := range holds {
				alive(t, h)
			}
			// One by force, so that there is a call to make before the others are lost.
			if _, err := d.Admin().ForceRelease(t.Context(), "1", holdfast.HoldID{}); err != nil {
				t.Fatal(err)
			}
			mustEnd(t, holds[0], time.Minute, holdfast.ErrForced)
			holds = holds[1:]

			hanging.Store(true)
			var all sync.WaitGroup
			for _, h := range holds {
				all.Go(func() {
					if _, err := d.Lock(t.Context(), h.Resource(), nil); err != nil {
						t.Error(err)
					} else if h.Context().Err() == nil {
						t.Errorf("%q was granted to another while the context was alive", h.Resource())
					}
				})
			}
			all.Wait()
			left := lock(t, c, "left", nil)
			began := time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("Close took %v", took)
			}
			mustEnd(t, left, time.Millisecond, holdfast.ErrClosed)
			mustBeFree(t, store, "left")
		})
	}
}

// Contexts that end together end at once, however many calls the Trace gets.
func TestContextsEndTogether(t *testing.T) {
	for name := range everyHook(nil) {
		inBubble(t, name, func(t *testing.T) {
			opts := everyHook(func() { time.Sleep(20 * time.Millisecond) })[name]
			f := faulty(t, memlock.New(nil), on(drivertest.Renew, drivertest.Fault{HoldRequest: make(chan struct{})}))
			c := newClient(t, f, opts)
			ends := make(chan time.Time, 100)
			for i := range cap(ends) {
				h := lock(t, c, fmt.Sprint(i), nil)
				context.AfterFunc(h.Context(), func() { ends <- time.Now() })
			}
			first := <-ends
			for range cap(ends) - 1 {
				if end := <-ends; !end.Equal(first) {
					t.Fatalf("one context ended %v after another", end.Sub(first))
				}
			}
		})
	}
}

// The calls come in order, once each, before Close returns.
func TestTellsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		tell := func(format string, args ...any) {
			time.Sleep(time.Millisecond)
			told = append(told, fmt.Sprintf(format, args...)) // calls come from one goroutine at a time
		}
		c := unswept(memlock.New(nil), &holdfast.Options{Trace: &holdfast.Trace{
			HoldStart: func(ctx context.Context, info holdfast.HoldInfo) context.Context {
				tell("acquired %s", info.Hold.Resource())
				return ctx
			},
			Released: func(_ context.Context, info holdfast.CallInfo) { tell("released %s", info.Hold.Resource()) },
		}})
		var want []string
		for i := range 500 {
			unlock(t, lock(t, c, fmt.Sprint(i), nil))
			want = append(want, fmt.Sprint("acquired ", i), fmt.Sprint("released ", i))
		}
		lock(t, c, "last", nil)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if want = append(want, "acquired last", "released last"); !slices.Equal(told, want) {
			t.Errorf("the calls were %q", told)
		}
	})
}

// A Trace that never returns does not use more and more memory: calls beyond the limit are
// left out, and a warning says so.
func TestTooMuchToTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		block := make(chan struct{})
		acquired := 0
		c := unswept(memlock.New(nil), &holdfast.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Trace:  &holdfast.Trace{HoldStart: starting[holdfast.HoldInfo](func() { <-block; acquired++ })},
		})
		const locks = 30_000
		for i := range locks {
			unlock(t, lock(t, c, "r", nil))
			if i == 0 {
				synctest.Wait() // the Trace blocks from here on
			}
		}
		close(block)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		if acquired < 1_000 || acquired >= locks {
			t.Errorf("the Trace got %d of %d locks", acquired, locks)
		}
		if strings.Count(log.String(), "calls were left out") != 1 {
			t.Errorf("the log is\n%s", &log)
		}
	})
}

// Calls of Renew that fail again and again do not delay the Client's own renewals.
func TestFailingRenewDoesNotStarveKeepAlive(t *testing.T) {
	for _, ttl := range []time.Duration{2 * time.Second, 30 * time.Second, holdfast.Forever} {
		synctest.Test(t, func(t *testing.T) {
			store := memlock.New(nil)
			c := newClient(t, faulty(t, store, delayed(drivertest.Renew, 20*time.Millisecond)), nil)
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: ttl})
			for range 2000 {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
				if err := h.Renew(ctx, 0); !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("Renew: %v", err)
				}
				cancel()
				time.Sleep(40 * time.Millisecond)
			}
			alive(t, h)
		})
	}
}
