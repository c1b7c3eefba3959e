package redislock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/tests/ask"
)

// A key lives until its holds block no more and the retention has passed, so that
// nothing accumulates and the next token is larger.
func TestKeysExpire(t *testing.T) {
	p := newPlace(t)
	p.Retention = 2 * time.Hour
	s := newStore(t, p.client, &p.Options)
	lives := func(resource string) time.Duration {
		return p.client.PTTL(t.Context(), p.Prefix+resource).Val()
	}
	near := func(what, resource string, want time.Duration) {
		t.Helper()
		if got := lives(resource); got > want+time.Second || got < want-time.Minute {
			t.Errorf("%s: the key lives for %v, want %v", what, got, want)
		}
	}
	const none = -1 // what PTTL answers

	q := ask.Request("r", "a")
	ref := ask.Granted(t, s, q)
	near("held for an hour", "r", 3*time.Hour)
	for ttl, want := range map[time.Duration]time.Duration{5 * time.Hour: 7 * time.Hour} {
		if rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: ttl}}); err != nil || rs[0].Err != nil {
			t.Fatal(rs, err)
		}
		near("renewed", "r", want)
	}
	if rs, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: driver.Forever}}); err != nil || rs[0].Left != driver.Forever {
		t.Fatal(rs, err)
	}
	if got := lives("r"); got != none {
		t.Errorf("held forever: the key lives for %v", got)
	}
	ask.Released(t, s, ref, time.Minute)
	near("released with a delay", "r", 2*time.Hour+time.Minute)
	ask.Granted(t, s, ask.Request("other", "a"))

	q = ask.Request("delayed", "a")
	q.TakeoverDelay = time.Hour
	ref = ask.Granted(t, s, q)
	near("with a takeover delay", "delayed", 4*time.Hour)
	ask.Released(t, s, ref, 0)
	near("released", "delayed", 2*time.Hour)

	long, short := ask.Shared(ask.Request("shared", "a"), 0), ask.Shared(ask.Request("shared", "b"), 0)
	long.TTL = 10 * time.Hour
	ref = ask.Granted(t, s, long)
	ask.Granted(t, s, short)
	near("shared by two", "shared", 12*time.Hour)
	ask.Released(t, s, ref, 0)
	near("the longer one is released", "shared", 3*time.Hour)

	q = ask.Request("forever", "a")
	q.TTL = driver.Forever
	ask.Granted(t, s, q)
	if got := lives("forever"); got != none {
		t.Errorf("granted forever: the key lives for %v", got)
	}
}

// A clock that was ahead has left a token behind that stays the largest until the
// clock has passed it, whatever happens to the holds.
func TestClockWasAhead(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	ask.Released(t, s, ask.Granted(t, s, ask.Request("r", "a")), 0)
	year := int64(365 * 24 * time.Hour / time.Microsecond)
	if err := p.client.Eval(t.Context(), `
		local r = cmsgpack.unpack(redis.call('GET', KEYS[1]))
		r[1], r[2] = r[1] + ARGV[1], r[2] + ARGV[1]
		redis.call('SET', KEYS[1], cmsgpack.pack(r))
		return 1`, []string{p.Prefix + "r"}, year).Err(); err != nil {
		t.Fatal(err)
	}
	first := ask.Granted(t, s, ask.Request("r", "a"))
	if ahead := time.Until(time.UnixMicro(int64(first.Token))); ahead < 364*24*time.Hour {
		t.Errorf("token %d is %v ahead of the clock", first.Token, ahead)
	}
	ask.Released(t, s, first, 0)
	if got := p.client.PTTL(t.Context(), p.Prefix+"r").Val(); got < 365*24*time.Hour {
		t.Errorf("the key lives for %v, less than the clock needs to pass the token", got)
	}
	if swept, err := s.Sweep(t.Context(), time.Minute); err != nil || swept.Records != 0 {
		t.Errorf("swept %+v %v", swept, err)
	}
	if second := ask.Granted(t, s, ask.Request("r", "a")); second.Token != first.Token+1 {
		t.Errorf("token %d follows token %d", second.Token, first.Token)
	}
}

// No token passes 2^53, where numbers are no longer exact.
func TestTokensEnd(t *testing.T) {
	p := newPlace(t)
	s := newStore(t, p.client, &p.Options)
	last := driver.HoldRef{Token: driver.MaxToken - 1}
	if err := p.client.Eval(t.Context(), `
		redis.call('SET', KEYS[1], cmsgpack.pack({ ARGV[1] - 1, 0 }))
		return 1`, []string{p.Prefix + "r"}, last.Token).Err(); err != nil {
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

// trips counts what is sent to the server.
type trips struct {
	mu sync.Mutex
	n  int
}

func (c *trips) count() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
}

// of is how many round trips do takes.
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
	return func(ctx context.Context, cmd redis.Cmder) error { c.count(); return next(ctx, cmd) }
}

func (c *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { c.count(); return next(ctx, cmds) }
}

// An operation is one round trip, and so are 500 renewals.
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
	if _, err := s.Renew(t.Context(), qs[:1]); err != nil { // the server gets the script
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

// What many ask at the same time travels together.
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
