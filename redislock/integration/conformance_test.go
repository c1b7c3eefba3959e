package redislock_test

import (
	"context"
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/redislock"
)

func alone(t *testing.T) *drivertest.Harness {
	p := newPlace(t)
	return &drivertest.Harness{
		Uncounted: true, // keys expire

		Store:  p.open(),
		Reopen: func(*testing.T) driver.Store { return p.open() },
		Damage: p.damage,
	}
}

// onSetClock has a server of its own, whose clock stands still until the test moves it.
// Its keys stay so long that TTLs of hours are handled like short ones. With the default
// retention, as in the other tests, they are not.
func onSetClock(t *testing.T) *drivertest.Harness {
	server, clock := engines.NewRedisClock(t)
	p := place{redislock.Options{Prefix: "holdfast:", KeyRetention: 1000 * time.Hour}, connect(t, options(t, server.URL))}
	return clock.Drive(&drivertest.Harness{
		Uncounted: true, // keys expire

		Store:  p.open(),
		Reopen: func(*testing.T) driver.Store { return p.open() },
		Damage: p.damage,
	})
}

// longer is more time than a request takes that is repeated on a new connection.
const longer = time.Second

func behindNetwork(t *testing.T, n *proxy.Network) *drivertest.Harness {
	near := newPlace(t)
	far := near
	far.client = through(t, n)
	h := alone(t)
	h.Store, h.Damage, h.Short = far.open(), near.damage, longer
	h.Reopen = func(*testing.T) driver.Store { return far.open() }
	h.Beside = func(*testing.T) driver.Store { return near.open() }
	return h
}

// cutOff can be cut off from its server while others are not, and has a server of its own
// that may crash.
func cutOff(t *testing.T) *drivertest.Harness {
	server, n := engines.NewRedis(t, "--appendonly", "yes", "--appendfsync", "always"), proxy.New(t)
	near := place{redislock.Options{Prefix: redislock.DefaultPrefix}, connect(t, options(t, server.URL))}
	far := redislock.Options{Prefix: near.Prefix}
	open := func(t *testing.T) driver.Store {
		o := options(t, server.URL)
		o.Dialer = n.DialContext
		return redislock.New(connect(t, o), &far)
	}
	return &drivertest.Harness{
		Uncounted: true, Short: longer,

		Store:  open(t),
		Reopen: open,
		Beside: func(*testing.T) driver.Store { return near.open() },
		Break: func(*testing.T) (mend func()) {
			n.Set(proxy.Silence)
			return func() { n.Set(proxy.Fault{}) }
		},
		BreakWrites: func(t *testing.T) (mend func()) {
			set := func(replicas string) {
				if err := near.client.ConfigSet(context.WithoutCancel(t.Context()), "min-replicas-to-write", replicas).Err(); err != nil {
					t.Error(err)
				}
			}
			set("1") // there is no replica
			return func() { set("0") }
		},
		Restart: func(t *testing.T) { server.Restart(t) },
	}
}

// copied is a store that waits for a replica, on a release of Redis that knows from its
// connections whether there is anything to wait for.
func copied(t *testing.T) *drivertest.Harness {
	primary := engines.NewRedisRelease(t, engines.Redis82)
	replica := engines.NewRedisReplica(t, primary)
	o := redislock.Options{Replicas: 1, ReplicaTimeout: 200 * time.Millisecond}
	open := func(t *testing.T) driver.Store { return redislock.New(connect(t, options(t, primary.URL)), &o) }
	s := open(t)
	ask.Until(t, "the replica answers in time", func() bool {
		_, err := s.Acquire(t.Context(), ask.Request("none of the suite's", "a"))
		return err == nil
	})
	rs, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: "none of the suite's", LockID: "a"}}})
	if err := errors.Join(err, rs[0].Err); err != nil {
		t.Fatal(err)
	}
	return &drivertest.Harness{
		Uncounted: true, Short: longer,

		Store:  s,
		Reopen: open,
		HoldCopies: func(t *testing.T) (resume func()) {
			replica.Freeze(t)
			return func() { replica.Thaw(t) }
		},
	}
}

// opened is a store opened by its URL, behind the network if there is one.
func opened(t *testing.T, n *proxy.Network) *drivertest.Harness {
	p := newPlace(t)
	open := func(t *testing.T) driver.Store { return p.byURL(t, farURL(t, n)) }
	return &drivertest.Harness{
		Uncounted: true, Store: open(t), Reopen: open, Damage: p.damage, Short: longer,
		Beside: func(t *testing.T) driver.Store { return p.byURL(t, engines.Redis(t).URL) },
	}
}

// farURL is the URL of the server through the network, if there is one.
func farURL(t testing.TB, n *proxy.Network) string {
	t.Helper()
	u, err := url.Parse(engines.Redis(t).URL)
	if err != nil {
		t.Fatal(err)
	}
	if n != nil {
		u.Host = n.Address(u.Host)
	}
	return u.String()
}

// through is a client that uses the server through the network.
func through(t testing.TB, n *proxy.Network) *redis.Client {
	o := options(t, engines.Redis(t).URL)
	o.Dialer = n.DialContext
	return connect(t, o)
}

func TestConformance(t *testing.T)           { drivertest.Run(t, onSetClock) }
func TestConformanceWhenCutOff(t *testing.T) { drivertest.Outages(t, cutOff) }
func TestConformanceInRealTime(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: without a clock that is set")
	drivertest.Run(t, alone)
}
func TestConformanceBehindFaults(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: with replies lost")
	drivertest.Run(t, drivertest.WithFaults(alone))
}

// Connections are cut now and then, before or after the server has acted.
func TestConformanceBehindNetwork(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: on a bad network")
	drivertest.Run(t, proxy.Disturbed(3, behindNetwork))
}

func TestConformanceByURL(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: opened by URL")
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness { return opened(t, nil) })
}

func TestConformanceByURLBehindNetwork(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: on a bad network")
	drivertest.Run(t, proxy.Disturbed(3, opened))
}

func TestConformanceWithReplica(t *testing.T) { drivertest.Outages(t, copied) }

// The two handles on the data are opened in the two possible ways.
func TestConformanceInCluster(t *testing.T) {
	thorough.Test(t, "the conformance suite once more: in a cluster")
	cluster := engines.NewRedisCluster(t)
	drivertest.Run(t, func(t *testing.T) *drivertest.Harness {
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses(cluster.URL)})
		t.Cleanup(func() { closeAll(t, client) })
		p := place{redislock.Options{Prefix: engines.Name() + ":"}, client}
		return &drivertest.Harness{
			Uncounted: true, // keys expire

			Store:  p.byURL(t, cluster.URL),
			Reopen: func(*testing.T) driver.Store { return p.open() },
			Damage: p.damage,
		}
	})
}

func TestFaultsByURL(t *testing.T) {
	thorough.Test(t, "waits for many time-outs")
	faults.Run(t, func(t *testing.T) *faults.Place {
		p, n := newPlace(t), proxy.New(t)
		return &faults.Place{
			Network: n,
			Near:    func(t *testing.T) driver.Store { return p.byURL(t, farURL(t, nil)) },
			Far:     func(t *testing.T) driver.Store { return p.byURL(t, farURL(t, n)) },
		}
	})
}

func TestFaults(t *testing.T) {
	thorough.Test(t, "waits for many time-outs")
	faults.Run(t, func(t *testing.T) *faults.Place {
		near, n := newPlace(t), proxy.New(t)
		far := near
		far.client = through(t, n)
		return &faults.Place{
			Network: n,
			Near:    func(*testing.T) driver.Store { return near.open() },
			Far:     func(*testing.T) driver.Store { return far.open() },
		}
	})
}
