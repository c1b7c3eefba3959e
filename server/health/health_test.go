package health_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/health"
)

var (
	errBroken   = errors.New("dial tcp 10.0.0.7:5432: hunter2")
	errSilent   = fmt.Errorf("pg: %w", context.DeadlineExceeded)
	errUnusable = fmt.Errorf("%w: password hunter2 refused", driver.ErrUnusable)
)

// call is a call of the store that returns after some time.
type call struct {
	op   string
	took time.Duration
	err  error
}

func TestLevels(t *testing.T) {
	broken, silent := call{"acquire", time.Millisecond, errBroken}, call{"acquire", 10 * time.Second, errSilent}
	refused := call{"acquire", time.Millisecond, errUnusable}
	renewed, listed := call{"renew", time.Millisecond, nil}, call{"list", time.Millisecond, nil}
	slowList := call{"list", 30 * time.Second, errSilent}
	wait := func(d time.Duration) call { return call{took: d} }
	for name, c := range map[string]struct {
		calls []call
		level health.Level
		since time.Duration
		says  string
	}{
		"nothing is known":         {nil, health.Starting, 0, "has not answered yet, for 1 s"},
		"it answers":               {[]call{renewed, wait(3 * time.Second)}, health.OK, 0, "the last call was 3 s ago"},
		"one call fails":           {[]call{renewed, broken}, health.Degraded, 0, "1 call of the store got no answer in the last 1 s, the last one 1 s ago"},
		"two calls fail":           {[]call{renewed, broken, wait(2 * time.Second), broken}, health.Failing, 2002 * time.Millisecond, "No call of the store has been answered for 2 s"},
		"one is not answered":      {[]call{renewed, silent}, health.Failing, 10 * time.Second, "it was not answered within 10 s"},
		"it answers again":         {[]call{silent, renewed}, health.Degraded, 0, "1 call of the store"},
		"a minute later":           {[]call{silent, renewed, wait(time.Minute), renewed}, health.OK, 0, "1 s ago"},
		"a list is slow":           {[]call{renewed, {"list", 0, nil}, slowList, renewed}, health.Degraded, 0, "not answered within 30 s"},
		"only lists, and slow":     {[]call{renewed, slowList}, health.Failing, 30 * time.Second, "within 30 s"},
		"lists fail":               {[]call{renewed, {"list", 0, errBroken}, renewed, {"list", 0, errBroken}, renewed}, health.Degraded, 0, "2 calls of the store got no answer"},
		"acquires are refused":     {[]call{listed, refused, listed}, health.Failing, 2 * time.Millisecond, "No acquire has been answered for 1 s, although"},
		"and still are":            {[]call{refused, wait(30 * time.Minute), listed}, health.Failing, 30*time.Minute + 2*time.Millisecond, "No acquire has been answered for 30 min"},
		"renewals are":             {[]call{listed, {"renew", 0, errUnusable}, listed}, health.Failing, time.Millisecond, "No renewal has been answered"},
		"acquires hang":            {[]call{silent, renewed, silent, renewed}, health.Failing, 20*time.Second + 2*time.Millisecond, "No acquire"},
		"one acquire hangs":        {[]call{silent, renewed}, health.Degraded, 0, "1 call"},
		"one acquire hung":         {[]call{silent, renewed, silent, renewed, wait(time.Minute), renewed}, health.OK, 0, "1 s ago"},
		"the last one is answered": {[]call{refused, {"acquire", 0, driver.ErrHeld}}, health.Degraded, 0, "1 call"},
		"the hold is lost":         {[]call{{"renew", 0, driver.ErrLost}}, health.OK, 0, "answers"},
		"the caller had no time":   {[]call{renewed, {"acquire", time.Second, errSilent}, {"acquire", time.Second, os.ErrDeadlineExceeded}}, health.OK, 0, "answers"},
		"the caller hung up":       {[]call{renewed, {"list", time.Minute, context.Canceled}}, health.OK, 0, "answers"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := health.New()
				for _, c := range c.calls {
					time.Sleep(c.took)
					if c.op != "" {
						l.StoreCall(t.Context(), c.op, c.took, c.err)
					}
				}
				s := l.Now()
				if s.Level != c.level || !strings.Contains(s.Says(), c.says) || strings.Contains(s.Says(), "hunter2") {
					t.Errorf("%v: %s", s.Level, s.Says())
				}
				if c.level == health.Failing && s.At.Sub(s.Since) != c.since {
					t.Errorf("since %v", s.At.Sub(s.Since))
				}
			})
		})
	}
}

// A list that was slow says nothing if other calls were answered meanwhile.
func TestSlowBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := health.New()
		time.Sleep(20 * time.Second)
		l.StoreCall(t.Context(), "renew", time.Millisecond, nil)
		time.Sleep(10 * time.Second)
		l.StoreCall(t.Context(), "list", 30*time.Second, errSilent)
		if s := l.Now(); s.Level != health.Degraded || !strings.Contains(s.Says(), "1 call") {
			t.Errorf("%+v", s)
		}
	})
}

// A call that ends since its caller hung up says nothing, whatever the store makes of that.
func TestCallerHangsUp(t *testing.T) {
	l := health.New()
	ctx, cancel := context.WithCancel(t.Context())
	l.StoreCall(ctx, "acquire", 0, nil)
	cancel()
	l.StoreCall(ctx, "acquire", 0, errBroken)
	l.StoreCall(ctx, "acquire", 0, errBroken)
	if s := l.Now(); s.Level != health.OK {
		t.Errorf("%+v", s)
	}
}

func TestServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := health.New()
		is := func(level health.Level, says ...string) {
			t.Helper()
			s := l.Now()
			for _, part := range says {
				if s.Level != level || !strings.Contains(s.Says(), part) || strings.Contains(s.Says(), "hunter2") {
					t.Errorf("%v, want %v and %q:\n%s", s.Level, level, part, s.Says())
				}
			}
		}
		l.Preparing(nil)
		time.Sleep(4 * time.Second)
		is(health.Starting, "has not answered yet, for 4 s", "No lock is granted")
		l.Preparing(errUnusable)
		is(health.Starting, "could not be prepared for 4 s: the store cannot be used")
		l.StoreCall(t.Context(), "init", 0, nil)
		l.Prepared()
		is(health.OK, "answers")
		l.Ending()
		is(health.Ending, "another one")
		l.Replaced(24*time.Hour, false)
		time.Sleep(time.Hour)
		is(health.Replaced, "seen 1 h ago", "wait for 23 h more", "restart all servers")
		l.Replaced(time.Minute, true) // it is known
		is(health.Replaced, "seen 1 h ago", "wait for 23 h more")
		time.Sleep(23 * time.Hour)
		is(health.Replaced, "TTL of the auth file is over")
		l.Prepared()
		is(health.Ending, "another one")
		l.Replaced(driver.Unknown, false)
		is(health.Replaced, "the longest TTL that your programs ask for", "without an end")
	})
}

func TestConcurrently(t *testing.T) {
	l := health.New()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				l.StoreCall(t.Context(), "acquire", 0, nil)
				l.StoreCall(t.Context(), "list", 0, errBroken)
			}
		})
	}
	all.Go(func() {
		for range 1000 {
			_, _ = l.Now().Says(), l.Answered()
		}
	})
	all.Wait()
	l.StoreCall(t.Context(), "acquire", 0, nil)
	if s := l.Now(); s.Level != health.Degraded || !strings.Contains(s.Says(), "8000 calls") {
		t.Errorf("%+v", s)
	}
}
