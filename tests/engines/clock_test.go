package engines_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/tests/ask"
	"github.com/holdfast-go/holdfast/tests/engines"
)

// steps are what a clock is moved by: forward, back, far, and by little.
var steps = []time.Duration{0, time.Microsecond, 3*time.Second + 7*time.Microsecond, -time.Hour, 365 * 24 * time.Hour, -365 * 24 * time.Hour, -time.Microsecond}

// follows moves a clock, and compares it with what the server says.
func follows(t *testing.T, clock *engines.Clock, server func() time.Time) {
	t.Helper()
	want := clock.Now()
	for _, step := range steps {
		clock.Advance(step)
		want = want.Add(step)
		for range 2 {
			if got := server(); !got.Equal(want) || !got.Equal(clock.Now()) {
				t.Errorf("after %v: the server says %v, the clock %v; want %v", step, got, clock.Now(), want)
			}
		}
	}
	// Binary fractions are no matter.
	for i := range 1000 {
		at := time.UnixMicro(1_500_000_000_000_000 + int64(i)*999_983)
		clock.Set(at)
		if got := server(); !got.Equal(at) {
			t.Fatalf("the server says %v, want %v", got, at)
		}
	}
}

func TestRedisClock(t *testing.T) {
	s, clock := engines.NewRedisClock(t, "--appendonly", "yes")
	client := redisAt(t, s.URL)
	now := func() time.Time {
		at, err := client.Time(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	follows(t, clock, now)
	inScript := redis.NewScript(`local t = redis.call("TIME") return t[1] * 1000000 + t[2]`)
	if got, err := inScript.Run(t.Context(), client, nil).Int64(); err != nil || got != clock.Now().UnixMicro() {
		t.Errorf("a script sees %d, want %d; error %v", got, clock.Now().UnixMicro(), err)
	}

	// A key is there until its time is over, and comes back never.
	if err := client.Set(t.Context(), "k", "1", time.Hour).Err(); err != nil {
		t.Fatal(err)
	}
	clock.Advance(-24 * time.Hour)
	if left, err := client.PTTL(t.Context(), "k").Result(); err != nil || left != 25*time.Hour {
		t.Errorf("%v are left, want 25h; error %v", left, err)
	}
	clock.Advance(25*time.Hour - time.Millisecond)
	if got := get(t, client, "k"); got != "1" {
		t.Errorf("a millisecond before its end the key is %q", got)
	}
	clock.Advance(2 * time.Millisecond)
	if got := get(t, client, "k"); got != "" {
		t.Errorf("a millisecond after its end the key is %q", got)
	}
	clock.Advance(-time.Hour)
	if got := get(t, client, "k"); got != "" {
		t.Errorf("before its end again the key is %q", got)
	}

	clock.Run(1000)
	machine, began := time.Now(), now()
	ask.Until(t, "a second has passed", func() bool { return now().Sub(began) > time.Second })
	if passed := time.Since(machine); passed < time.Millisecond {
		t.Errorf("that took %v", passed)
	}
	clock.Advance(0)

	for _, again := range []func(testing.TB){s.Restart, s.Empty} {
		again(t)
		if got := now(); !got.Equal(clock.Now()) {
			t.Errorf("after a restart the server says %v, want %v", got, clock.Now())
		}
	}
}

func TestPostgresClock(t *testing.T) {
	var url string
	t.Run("first", func(t *testing.T) {
		var clock *engines.Clock
		url, clock = engines.PostgresClock(t)
		conn := postgresAt(t, url)
		for _, query := range []string{"SELECT clock_timestamp()", "SELECT now()"} {
			follows(t, clock, func() time.Time { return value[time.Time](t, conn, query) })
		}

		// It is the same for others, and does not move by itself.
		other := postgresAt(t, url)
		if got := value[time.Time](t, other, "SELECT clock_timestamp()"); !got.Equal(clock.Now()) {
			t.Errorf("another session sees %v, want %v", got, clock.Now())
		}

		// What waits for a lock does so by the machine's clock.
		do(t, conn, "CREATE TABLE locks (resource text PRIMARY KEY, n int)")
		do(t, conn, "INSERT INTO locks VALUES ('r', 0)")
		do(t, conn, "BEGIN")
		do(t, conn, "UPDATE locks SET n = 1")
		do(t, other, "SET lock_timeout = '100ms'")
		if _, err := other.Exec(t.Context(), "UPDATE locks SET n = 2"); !hasCode(err, "55P03") {
			t.Errorf("waiting for a lock: %v, want a time-out", err)
		}
	})

	// The next test has that server, with another database and a clock that is set again.
	next, clock := engines.PostgresClock(t)
	if next == url {
		t.Errorf("both tests have %s", next)
	}
	conn := postgresAt(t, next)
	if got := value[time.Time](t, conn, "SELECT clock_timestamp()"); !got.Equal(clock.Now()) || time.Since(got.AddDate(10, 0, 0)) > time.Minute {
		t.Errorf("the next test sees %v, want %v, ten years ago", got, clock.Now())
	}
	if n := value[int](t, conn, "SELECT count(*) FROM pg_tables WHERE tablename = 'locks'"); n != 0 {
		t.Error("the next test sees the table of the first one")
	}
	if other, _ := engines.PostgresClock(t); other == next {
		t.Error("one server for two tests at once")
	}
}
