package fitness

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// faulty is a store in memory whose calls decide disturbs.
func faulty(t *testing.T, decide func(drivertest.Call) drivertest.Fault) *drivertest.FaultStore {
	f := drivertest.NewFaultStore(memlock.New(nil), decide)
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func sound(drivertest.Call) drivertest.Fault { return drivertest.Fault{} }

// opens opens the store, which the test closes.
func opens(s driver.Store) func(context.Context) (driver.Store, error) {
	return func(context.Context) (driver.Store, error) { return shared{s}, nil }
}

// shared is a store that others use, too.
type shared struct{ driver.Store }

func (shared) Close() error { return nil }

func (s shared) Watch(ctx context.Context, resource string) (<-chan struct{}, error) {
	if w, ok := s.Store.(driver.Watcher); ok {
		return w.Watch(ctx, resource)
	}
	return nil, driver.ErrUnsupported
}

func (s shared) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, s.Store, f)
}

// mustFind fails unless the check has that result and the words are in its text
// or its error.
func mustFind(t *testing.T, r Report, check string, result Verdict, words ...string) {
	t.Helper()
	i := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == check })
	if i < 0 {
		t.Errorf("%s was not checked: %+v", check, r.Findings)
		return
	}
	f := r.Findings[i]
	text := fmt.Sprint(f.Text, " ", f.Err)
	for _, word := range words {
		if f.Result != result || !strings.Contains(text, word) {
			t.Errorf("%s: %s: %s; want %s with %q", check, f.Result, text, result, word)
		}
	}
}

// mustBeFree fails if anything is held.
func mustBeFree(t *testing.T, s driver.Store) {
	t.Helper()
	for s, err := range s.List(context.Background(), driver.Filter{}) {
		t.Errorf("%q is held (error %v)", s.Resource, err)
	}
}

// inBubble runs a test whose time passes as soon as all wait for it.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func TestSound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, sound)
		client := holdfast.New(f, nil)
		for _, resource := range []string{"theirs", "theirs too"} {
			if _, err := client.Lock(t.Context(), resource, nil); err != nil {
				t.Fatal(err)
			}
		}
		r := Check(t.Context(), opens(f))
		if f := r.Failed(); f != nil {
			t.Fatalf("%+v", f)
		}
		var checks []string
		for _, f := range r.Findings {
			checks = append(checks, fmt.Sprintf("%s %s", f.Result, f.Check))
		}
		want := []string{
			"ok open", "ok acquire", "ok refuse", "ok renew", "ok list", "ok release", "ok tokens", "ok offset",
			"ok round-trip", "ok ttl", "ok wake-ups", "ok statements", "ok clean-up",
			"warn reach", "note clock", "note queue", "warn durable", "note shared", "note fencing", // a store in memory
		}
		if !slices.Equal(checks, want) {
			t.Errorf("got  %q\nwant %q", checks, want)
		}
		mustFind(t, r, "list", OK, "and 2 more")
		mustFind(t, r, "ttl", OK, "1s")
		if len(r.Pair) != pairs || len(r.Renewal) != pairs || len(r.HandOver) != handOvers {
			t.Errorf("%d pairs, %d renewals, %d hand-overs", len(r.Pair), len(r.Renewal), len(r.HandOver))
		}
		if *r.ShortestTTLMs != 1000 || *r.ClockAheadMs != 0 || *r.ClockUncertaintyMs != 0 || r.Traits != f.Traits() {
			t.Errorf("%+v, %+v", r.Figures, r.Traits)
		}
		// What others hold is left alone.
		if err := client.Close(); err != nil {
			t.Error(err)
		}
		mustBeFree(t, f)
		if n := f.Calls(drivertest.Sweep); n != 0 {
			t.Errorf("%d sweeps", n)
		}
	})
}

// looks is how often statements lists holds or waiters.
const looks = 56

// Each right that is missing is named by the step that needs it.
func TestMissingRights(t *testing.T) {
	refused := fmt.Errorf("%w: permission denied", driver.ErrUnusable)
	for check, c := range map[string]struct {
		op   drivertest.Op
		from int
		also string // a step after it that is taken all the same
	}{
		"acquire":    {drivertest.Acquire, 1, ""},
		"refuse":     {drivertest.Acquire, 2, ""},
		"renew":      {drivertest.Renew, 1, "release"},
		"list":       {drivertest.List, 1, "release"},
		"release":    {drivertest.Release, 1, ""},
		"tokens":     {drivertest.Acquire, 3, ""},
		"round-trip": {drivertest.Renew, 2, ""},
		"wake-ups":   {drivertest.Acquire, 3 + pairs + 1, ""},
		"statements": {drivertest.List, 3, ""},
		"clean-up":   {drivertest.List, 3 + looks, ""},
	} {
		inBubble(t, check, func(t *testing.T) {
			var fixed atomic.Bool
			f := faulty(t, func(call drivertest.Call) drivertest.Fault {
				return drivertest.Fault{LoseRequest: call.Op == c.op && call.N >= c.from && !fixed.Load(), Err: refused}
			})
			r := Check(t.Context(), opens(f))
			mustFind(t, r, check, Fail, "permission denied")
			if failed := r.Failed(); failed == nil || failed.Check != check {
				t.Errorf("failed is %+v", failed)
			}
			if c.also != "" {
				mustFind(t, r, c.also, OK, "")
			}
			if last := r.Findings[len(r.Findings)-1]; last.Check == "fencing" {
				t.Error("it went on to the end")
			}
			fixed.Store(true)
			if check != "release" { // else it cannot but leave it to its TTL
				mustBeFree(t, f)
			}
		})
	}
	t.Run("open", func(t *testing.T) {
		r := Check(t.Context(), func(context.Context) (driver.Store, error) { return nil, refused })
		mustFind(t, r, "open", Fail, "permission denied")
	})
	t.Run("open twice", func(t *testing.T) {
		f, n := faulty(t, sound), 0
		r := Check(t.Context(), func(ctx context.Context) (driver.Store, error) {
			if n++; n == 2 {
				return nil, refused
			}
			return opens(f)(ctx)
		})
		if failed := r.Failed(); failed == nil || !errors.Is(failed.Err, refused) {
			t.Errorf("failed is %+v", failed)
		}
	})
}

// A store that answers no more after the renewal without an end may have applied it.
func TestLeftWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		f := faulty(t, func(drivertest.Call) drivertest.Fault { return drivertest.Fault{LoseRequest: dead.Load()} })
		r := Check(t.Context(), opens(dying{f, &dead}))
		mustFind(t, r, "clean-up", Fail, "--force")
		if r.Left == "" {
			t.Error("it does not say what is left")
		}
	})
}

// dying is a store that dies as it answers a renewal without an end.
type dying struct {
	*drivertest.FaultStore
	dead *atomic.Bool
}

func (d dying) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	for _, q := range qs {
		if q.TTL == holdfast.Forever {
			d.dead.Store(true)
		}
	}
	return d.FaultStore.Renew(ctx, qs)
}

// Two who do not exclude one another, as with a file that each machine has its own
// copy of.
func TestNoExclusion(t *testing.T) {
	r := Check(t.Context(), func(context.Context) (driver.Store, error) { return memlock.New(nil), nil })
	mustFind(t, r, "refuse", Fail, "Do not use")
}

// slow lets each call reach the store only after a time.
func slow(d time.Duration) func(drivertest.Call) drivertest.Fault {
	return func(drivertest.Call) drivertest.Fault {
		arrives := make(chan struct{})
		time.AfterFunc(d, func() { close(arrives) })
		return drivertest.Fault{HoldRequest: arrives}
	}
}

func TestSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, slow(1500*time.Millisecond))
		r := Check(t.Context(), opens(f))
		mustFind(t, r, "round-trip", OK, "take 3s, a renewal 1.5s")
		mustFind(t, r, "ttl", Warn, "--ttl 1m0s or more")
		mustFind(t, r, "wake-ups", OK, "after 3s")
		if len(r.Pair) != minPairs || *r.ShortestTTLMs != 60000 {
			t.Errorf("%d pairs, TTL %v", len(r.Pair), *r.ShortestTTLMs)
		}
		if *r.ClockAheadMs != 750 || *r.ClockUncertaintyMs != 750 {
			t.Errorf("ahead by %v ms, give or take %v; want 750", *r.ClockAheadMs, *r.ClockUncertaintyMs)
		}
		mustBeFree(t, f)
	})
}

func TestVerySlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, slow(4*time.Second))
		r := Check(t.Context(), opens(f))
		mustFind(t, r, "ttl", Warn, "--ttl 2m0s or more")
		if f := r.Failed(); f != nil {
			t.Errorf("%+v", f)
		}
		mustBeFree(t, f)
	})
}

func TestClocks(t *testing.T) {
	for _, c := range []struct {
		ahead  time.Duration
		result Verdict
		says   string
	}{
		{999 * time.Millisecond, OK, "999ms ahead of"},
		{-time.Second, OK, "1s behind"},
		{1001 * time.Millisecond, Warn, "1s ahead of this machine's, give or take 0s. No lock depends on it"},
		{-time.Hour, Warn, "1h0m0s behind"},
	} {
		inBubble(t, c.ahead.String(), func(t *testing.T) {
			s := mutant{Store: faulty(t, sound), list: func(s *driver.Status) { s.Created = s.Created.Add(c.ahead) }}
			r := Check(t.Context(), opens(s))
			mustFind(t, r, "offset", c.result, c.says)
			if want := milliseconds(c.ahead); *r.ClockAheadMs != want {
				t.Errorf("ahead by %v, want %v", *r.ClockAheadMs, want)
			}
		})
	}
	t.Run("each client's", func(t *testing.T) {
		s := mutant{Store: faulty(t, sound), traits: func(t *driver.Traits) { t.ServerClock = false }}
		r := Check(t.Context(), opens(s))
		mustFind(t, r, "offset", Note, "no clock")
		mustFind(t, r, "clock", Warn, "each client's")
	})
	t.Run("not told", func(t *testing.T) {
		s := mutant{Store: faulty(t, sound), list: func(s *driver.Status) { s.Created = time.Time{} }}
		mustFind(t, Check(t.Context(), opens(s)), "offset", Note, "does not return it")
	})
}

func TestTokens(t *testing.T) {
	s := mutant{
		Store: faulty(t, sound),
		// The true token was never told.
		renew: func(rs []driver.RenewRequest) []driver.RenewRequest {
			for i := range rs {
				rs[i].Token = 0
			}
			return rs
		},
		release: func(rs []driver.ReleaseRequest) {
			for i := range rs {
				rs[i].Token = 0
			}
		},
	}
	s.granted = func(_ driver.Store, _ driver.AcquireRequest, g *driver.Grant) { g.Token = min(g.Token, 7) }
	mustFind(t, Check(t.Context(), opens(s)), "tokens", Fail, "do not rise: 7, then 7")

	s.granted = func(_ driver.Store, _ driver.AcquireRequest, g *driver.Grant) { g.Token = 0 }
	s.traits = func(t *driver.Traits) { t.Fencing = driver.FencingNone }
	r := Check(t.Context(), opens(s))
	mustFind(t, r, "tokens", Warn, "none")
	mustFind(t, r, "fencing", Warn, "no tokens")
}

func TestWakeUps(t *testing.T) {
	silent := func(c drivertest.Call) drivertest.Fault {
		if c.Op == drivertest.Watch {
			return drivertest.Fault{HoldSignals: make(chan struct{})}
		}
		return drivertest.Fault{}
	}
	inBubble(t, "promised, but none comes", func(t *testing.T) {
		f := faulty(t, silent)
		r := Check(t.Context(), opens(f))
		mustFind(t, r, "wake-ups", Warn, "none came")
		if r.Failed() != nil || len(r.HandOver) < 1 || len(r.HandOver) > 3 {
			t.Errorf("%+v, %d hand-overs", r.Failed(), len(r.HandOver))
		}
	})
	inBubble(t, "not promised", func(t *testing.T) {
		unsupported := func(c drivertest.Call) drivertest.Fault {
			return drivertest.Fault{LoseRequest: c.Op == drivertest.Watch, Err: driver.ErrUnsupported}
		}
		s := mutant{Store: faulty(t, unsupported), traits: func(t *driver.Traits) { t.Notifies = false }}
		r := Check(t.Context(), opens(s))
		mustFind(t, r, "wake-ups", Note, "there are none")
		mustFind(t, r, "notifies", Note, "poll")
	})
	inBubble(t, "never granted", func(t *testing.T) {
		f := faulty(t, sound)
		s := mutant{Store: f, release: func(rs []driver.ReleaseRequest) {
			if f.Calls(drivertest.Release) >= pairs+2 {
				rs[0].HoldID = driver.NewHoldID() // which nobody has
			}
		}}
		r := Check(t.Context(), opens(s))
		mustFind(t, r, "wake-ups", Fail, "did not get a released lock within ")
	})
}

func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := faulty(t, func(c drivertest.Call) drivertest.Fault {
			if c.Op == drivertest.Renew {
				cancel()
			}
			return drivertest.Fault{}
		})
		if r := Check(ctx, opens(f)); r.Failed() == nil {
			t.Errorf("%+v", r.Findings)
		}
		mustBeFree(t, f)
	})
}

// A hand-over lasts from before the release to the grant.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, slow(2*time.Millisecond))
		r := Check(t.Context(), opens(f))
		if r.HandOver.Quantile(0) != 4*time.Millisecond || r.HandOver.Quantile(1) != 4*time.Millisecond {
			t.Errorf("the hand-overs took %v", r.HandOver)
		}
		mustBeFree(t, f)
	})
}

// No list without --all, and no history, shows what a check locks.
func TestCheckLocksInternalResources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		Check(t.Context(), opens(faulty(t, func(c drivertest.Call) drivertest.Fault {
			for _, r := range c.Refs {
				if calls.Add(1); !driver.Internal(r.Resource) {
					t.Errorf("%v of %q", c.Op, r.Resource)
				}
			}
			return drivertest.Fault{}
		})))
		if calls.Load() == 0 {
			t.Error("nothing was locked")
		}
	})
}
