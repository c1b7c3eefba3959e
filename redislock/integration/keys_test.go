package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/redislock"
)

// A key lives until its holds no longer block and the retention has passed, and at most a
// sixteenth of the retention longer. So keys do not accumulate, and the next token is
// larger.
func TestKeysExpire(t *testing.T) {
	p := newPlace(t)
	p.KeyRetention = 2 * time.Hour
	s := newStore(t, p.client, &p.Options)
	lives := func(resource string) time.Duration {
		return p.client.PTTL(t.Context(), p.Prefix+resource).Val()
	}
	// The hold still blocks for this long.
	near := func(what, resource string, blocks time.Duration) {
		t.Helper()
		if got := lives(resource); got > blocks+p.KeyRetention*17/16 || got < blocks+p.KeyRetention-time.Minute {
			t.Errorf("%s: the key lives for %v", what, got)
		}
	}
	never := func(what, resource string) {
		t.Helper()
		if got := lives(resource); got != -1 { // PTTL returns that
			t.Errorf("%s: the key lives for %v", what, got)
		}
	}
	const year = 365 * 24 * time.Hour

	ref := ask.Granted(t, s, ask.Request("r", "a"))
	near("held for an hour", "r", time.Hour)
	renewed(t, s, ref, year)
	near("renewed for a year", "r", year)
	renewed(t, s, ref, driver.Forever)
	never("renewed for ever", "r")
	ask.Released(t, s, ref, time.Minute)
	near("released with a delay", "r", time.Minute)

	q := ask.Request("delayed", "a")
	q.TakeoverDelay = year
	ref = ask.Granted(t, s, q)
	near("with a takeover delay", "delayed", year+time.Hour)
	ask.Released(t, s, ref, 0)
	near("released", "delayed", 0)
	for range 3 {
		ref = ask.Granted(t, s, ask.Request("delayed", "a"))
		near("granted again", "delayed", time.Hour)
		ask.Released(t, s, ref, 0)
		near("released again", "delayed", 0)
	}

	long, short := ask.Shared(ask.Request("shared", "a"), 0), ask.Shared(ask.Request("shared", "b"), 0)
	long.TTL = year
	ref = ask.Granted(t, s, long)
	ask.Granted(t, s, short)
	near("shared by two", "shared", year)
	ask.Released(t, s, ref, 0)
	near("the longer one is released", "shared", time.Hour)

	q = ask.Request("forever", "a")
	q.TTL = driver.Forever
	ref = ask.Granted(t, s, q)
	never("granted for ever", "forever")
	ask.Released(t, s, ref, 0)
	near("released", "forever", 0)

	q = ask.Request("a hundred years", "a")
	q.TTL, q.TakeoverDelay = driver.MaxTTL, driver.MaxTTL
	ref = ask.Granted(t, s, q)
	_ = ask.Refused(t, s, ask.Request("a hundred years", "b"))
	ask.Released(t, s, ref, 0)
	near("released", "a hundred years", 0)
}

// A key exists as long as its token may be ahead of the clock, and for the retention
// after that, to the millisecond.
func TestKeysOutliveTokens(t *testing.T) {
	server, clock := engines.NewRedisClock(t)
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, &redislock.Options{KeyRetention: time.Hour})
	var last driver.HoldRef
	gone := 0
	for i := range 100 {
		next := ask.Granted(t, s, ask.Request("r", "a"))
		if next.Token <= last.Token {
			t.Fatalf("token %d follows token %d", next.Token, last.Token)
		}
		last = next
		if i%2 == 1 {
			clock.Advance(-time.Minute)
		}
		ask.Released(t, s, last, 0)
		clock.Advance(20 * time.Minute)
		if i%7 == 6 {
			clock.Advance(5 * time.Hour)
		}
		if client.Exists(t.Context(), "holdfast:r").Val() == 0 {
			gone++
		}
	}
	if gone == 0 || gone > 20 {
		t.Errorf("the key was gone %d times", gone)
	}
}

// After a clock was ahead, its token stays the largest until the clock has passed it,
// whatever happens to the holds.
func TestClockWasAhead(t *testing.T) {
	const year = 365 * 24 * time.Hour
	server, clock := engines.NewRedisClock(t)
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, nil)
	clock.Advance(year)
	first := ask.Granted(t, s, ask.Request("r", "a"))
	clock.Advance(-year)
	ask.Released(t, s, first, 0)
	for range 3 {
		next := ask.Granted(t, s, ask.Request("r", "a"))
		if next.Token != first.Token+1 {
			t.Errorf("token %d follows token %d", next.Token, first.Token)
		}
		ask.Released(t, s, next, 0)
		if got := client.PTTL(t.Context(), "holdfast:r").Val(); got < year {
			t.Errorf("the key lives for %v, less than the clock needs to pass the token", got)
		}
		first = next
	}
}

// No token passes 2^53. Larger numbers are not exact.
func TestTokensEnd(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	last := driver.HoldRef{Token: driver.MaxToken - 1}
	idle := fmt.Sprintf("I%016d%016d", 1<<53, last.Token-1)
	if err := p.client.Set(t.Context(), p.Prefix+"r", idle, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for want := last.Token; want <= driver.MaxToken; want++ {
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		if ref.Token != want {
			t.Errorf("token %d, want %d", ref.Token, want)
		}
		for st, err := range s.List(t.Context(), driver.Filter{Resource: "r"}) {
			if err != nil || st.Token != want {
				t.Errorf("listed: token %d, want %d; %v", st.Token, want, err)
			}
		}
		if !ask.Released(t, s, ref, 0) {
			t.Error("the hold was not found")
		}
	}
	if _, err := s.Acquire(t.Context(), ask.Request("r", "a")); !errors.Is(err, driver.ErrDamaged) {
		t.Errorf("after the last token: %v, want ErrDamaged", err)
	}
}

// trips counts the round trips of scripts, without those for new connections.
type trips struct {
	mu sync.Mutex
	n  int
}

func (c *trips) count(first redis.Cmder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.HasPrefix(first.Name(), "eval") {
		c.n++
	}
}

// of returns the number of round trips in do.
func (c *trips) of(do func()) int {
	c.mu.Lock()
	before := c.n
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n - before
}

func (c *trips) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { c.count(cmd); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.count(cmds[0]); return next(ctx, cmds) }
}

// An operation takes one round trip, and so do 500 renewals.
func TestRoundTrips(t *testing.T) {
	p := newPlace(t)
	var c trips
	p.client.AddHook(&c)
	s := newStore(t, p.client, &p.Options)
	ask.Released(t, s, ask.Granted(t, s, ask.Request("the server gets the scripts", "a")), 0)
	one := func(what string, do func()) {
		t.Helper()
		if n := c.of(do); n != 1 {
			t.Errorf("%s took %d round trips", what, n)
		}
	}
	var ref driver.HoldRef
	one("an acquire", func() { ref = ask.Granted(t, s, ask.Request("r", "a")) })
	one("a refusal", func() { _ = ask.Refused(t, s, ask.Request("r", "b")) })
	one("a release", func() { ask.Released(t, s, ref, 0) })

	const holds = 10_000
	qs := make([]driver.RenewRequest, holds)
	var all sync.WaitGroup
	for part := range 10 {
		all.Go(func() {
			for i := part; i < holds; i += 10 {
				qs[i] = driver.RenewRequest{HoldRef: ask.Granted(t, s, ask.Request(fmt.Sprint("r", i), "a")), TTL: 2 * time.Hour}
			}
		})
	}
	all.Wait()
	if _, err := s.Renew(t.Context(), qs[:1]); err != nil { // this gives the server the script
		t.Fatal(err)
	}
	n := c.of(func() {
		rs, err := s.Renew(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if r.Err != nil || r.Left <= time.Hour {
				t.Fatalf("renewal %d: %+v", i, r)
			}
		}
	})
	if n > holds/500 {
		t.Errorf("%d renewals took %d round trips", holds, n)
	}
}

// Simultaneous requests share round trips.
func TestPipelining(t *testing.T) {
	p := newPlace(t)
	var c trips
	p.client.AddHook(&c)
	s := newStore(t, p.client, &p.Options)
	const askers, rounds = 100, 20
	n := c.of(func() {
		var all sync.WaitGroup
		for i := range askers {
			all.Go(func() {
				for range rounds {
					ask.Released(t, s, ask.Granted(t, s, ask.Request(fmt.Sprint("r", i), "a")), 0)
				}
			})
		}
		all.Wait()
	})
	if requests := 2 * askers * rounds; n > requests/4 {
		t.Errorf("%d requests took %d round trips", requests, n)
	}
}

// Each run of a script reads and writes a key once, however many requests it has for it.
func TestManyHoldsInOneKey(t *testing.T) {
	t.Parallel()
	client := connect(t, options(t, engines.NewRedis(t).URL))
	s := newStore(t, client, nil)
	const holds = 500
	var renewals []driver.RenewRequest
	var releases []driver.ReleaseRequest
	for i := range holds {
		ref := ask.Granted(t, s, ask.Shared(ask.Request("r", fmt.Sprint("a", i)), 0))
		renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: 2 * time.Hour})
		releases = append(releases, driver.ReleaseRequest{HoldRef: ref})
	}
	// once calls do, which takes one run. The run may look at a key before it reads it.
	once := func(what string, do func() error) {
		t.Helper()
		before := [...]int{calls(t, client, "eval"), calls(t, client, "evalsha"), calls(t, client, "get"), calls(t, client, "set")}
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		evals, runs := calls(t, client, "eval")-before[0], calls(t, client, "evalsha")-before[1]
		reads, writes := calls(t, client, "get")-before[2], calls(t, client, "set")-before[3]
		if evals > 1 || runs != 1 || reads > 2 || writes != 1 {
			t.Errorf("%s of %d holds took %d and %d runs, %d reads and %d writes", what, holds, evals, runs, reads, writes)
		}
	}
	once("renewal", func() error {
		rs, err := s.Renew(t.Context(), renewals)
		for _, r := range rs {
			err = errors.Join(err, r.Err)
		}
		return err
	})
	once("release", func() error {
		rs, err := s.Release(t.Context(), releases)
		for i, r := range rs {
			if err = errors.Join(err, r.Err); !r.Found {
				t.Errorf("hold %d was not found", i)
			}
		}
		return err
	})
}
