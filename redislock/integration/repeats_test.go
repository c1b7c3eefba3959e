package redislock_test

import (
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/proxy"
)

// go-redis by itself repeats requests without a reply. A second acquire could acquire a
// lock that its caller has released. A second renewal could report as lost what the first
// one renewed. A second release without a hold ID could release a hold that was acquired
// in between.
func TestHiddenRepeats(t *testing.T) {
	release := func(s driver.Store, ref driver.HoldRef) {
		_, _ = s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
	}
	renew := func(s driver.Store, ref driver.HoldRef) {
		_, _ = s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}})
	}
	acquire := func(s driver.Store, ref driver.HoldRef) {
		_, _ = s.Acquire(t.Context(), ask.Request(ref.Resource, ref.LockID))
	}
	for name, c := range map[string]struct {
		do    func(s driver.Store, ref driver.HoldRef)
		named bool
	}{
		"acquire":                            {acquire, true},
		"release of a hold that is named":    {release, true},
		"release of whichever hold there is": {release, false},
		"renewal of a hold that is named":    {renew, true},
		"renewal of whichever hold there is": {renew, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, n := engines.NewRedis(t), proxy.New(t)
			client := connect(t, options(t, server.URL))
			near := newStore(t, client, nil)
			o := options(t, server.URL)
			o.Dialer, o.MinRetryBackoff = n.DialContext, 200*time.Millisecond
			far := newStore(t, connect(t, o), nil)
			ref := ask.Granted(t, near, ask.Request("r", "a"))
			other := ask.Granted(t, near, ask.Request("other", "a"))
			c.do(far, other) // this gives the server the script
			if !c.named {
				ref.HoldID, ref.Token = driver.HoldID{}, 0
			}
			before := scriptsRun(t, client)
			n.Set(proxy.CutReplies)
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.do(far, ref)
			}()
			ask.Until(t, "the script has run", func() bool { return scriptsRun(t, client) > before })
			n.Set(proxy.Fault{})
			<-done
			if ran := scriptsRun(t, client) - before; ran != 1 {
				t.Errorf("%d scripts ran, want one", ran)
			}
		})
	}
}

// scriptsRun returns how many scripts the server has run by name.
func scriptsRun(t testing.TB, client *redis.Client) int {
	t.Helper()
	return calls(t, client, "evalsha")
}

// calls returns how often the server has run a command, including calls from scripts.
func calls(t testing.TB, client *redis.Client, command string) int {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`cmdstat_` + command + `:calls=(\d+)`).FindStringSubmatch(info)
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
