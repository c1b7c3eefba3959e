package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
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
