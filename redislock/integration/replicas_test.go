package redislock_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/redislock"
)

// onEachRelease is for tests of commands whose meaning changed between releases of Redis.
func onEachRelease(t *testing.T, test func(t *testing.T, release engines.RedisRelease)) {
	t.Helper()
	t.Parallel()
	for name, release := range engines.RedisReleases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, release)
		})
	}
}

// With Options.Replicas a grant counts only when a replica has it, and is unknown
// otherwise.
func TestReplicas(t *testing.T) {
	onEachRelease(t, func(t *testing.T, release engines.RedisRelease) {
		primary := engines.NewRedisRelease(t, release)
		replica := connect(t, options(t, engines.NewRedisReplica(t, primary).URL))
		o := options(t, primary.URL)
		o.ReadTimeout = 20 * time.Second
		client := connect(t, o)
		s := newStore(t, client, &redislock.Options{Replicas: 1, ReplicaTimeout: 10 * time.Second})
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		if n := replica.Exists(t.Context(), "holdfast:r").Val(); n != 1 {
			t.Error("the replica does not have the granted hold")
		}
		two := newStore(t, client, &redislock.Options{Replicas: 2, ReplicaTimeout: 10 * time.Millisecond})
		q := ask.Request("r2", "a")
		_, err := two.Acquire(t.Context(), q)
		faults.MustBeUnknown(t, err)
		if !strings.Contains(err.Error(), "1 of 2 replicas") {
			t.Error(err)
		}
		rs, err := two.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: time.Hour}})
		faults.MustBeUnknown(t, errors.Join(err, rs[0].Err))
		// It was granted. A repeat finds that out as soon as there are replicas.
		if g, err := s.Acquire(t.Context(), q); err != nil || g.Token == 0 {
			t.Errorf("repeated: %+v %v", g, err)
		}
	})
}

// A repeat is granted when the replicas have the hold, on whatever connection it arrives:
// the first attempt failed because they did not have it. Refusals and losses need no
// replica.
func TestReplicaIsAway(t *testing.T) {
	onEachRelease(t, func(t *testing.T, release engines.RedisRelease) {
		primary := engines.NewRedisRelease(t, release)
		replica := engines.NewRedisReplica(t, primary)
		// Init publishes unless waiters poll, and WAIT would wait for that.
		o := redislock.Options{Replicas: 1, ReplicaTimeout: 100 * time.Millisecond, Poll: true}
		fresh := func() driver.Store { return newStore(t, connect(t, options(t, primary.URL)), &o) }
		s := fresh()
		held := ask.Request("held", "a")
		ask.Until(t, "the replica answers in time", func() bool {
			_, err := s.Acquire(t.Context(), held)
			return err == nil
		})
		gone := driver.HoldRef{Resource: "gone", LockID: "a", HoldID: driver.NewHoldID()}

		replica.Freeze(t)
		exclusive, shared := ask.Request("r", "a"), ask.Shared(ask.Request("shared", "a"), 3)
		for _, by := range []driver.Store{s, s, fresh(), fresh()} {
			for _, q := range []driver.AcquireRequest{exclusive, shared, held} {
				_, err := by.Acquire(t.Context(), q)
				faults.MustBeUnknown(t, err)
			}
			_ = ask.Refused(t, by, ask.Request("held", "b"))
			_ = ask.Refused(t, by, waiting(ask.Request("held", "b")))
			ask.Lost(t, by, gone)
		}
		replica.Thaw(t)
		for _, q := range []driver.AcquireRequest{exclusive, shared} {
			ask.Until(t, "the repeat is granted", func() bool {
				_, err := fresh().Acquire(t.Context(), q)
				return err == nil
			})
		}
	})
}

// A replica does not answer from its own copy, which may be old: it does not report that
// a hold exists, is lost or was released.
func TestReplicaAnswersNothing(t *testing.T) {
	onEachRelease(t, func(t *testing.T, release engines.RedisRelease) {
		primary := engines.NewRedisRelease(t, release)
		near := newStore(t, connect(t, options(t, primary.URL)), nil)
		q := ask.Request("held", "a")
		ref := ask.Granted(t, near, q)
		idle := ask.Request("idle", "a")
		if !ask.Released(t, near, ask.Granted(t, near, idle), 0) {
			t.Fatal("the hold is not there to be released")
		}
		replica := connect(t, options(t, engines.NewRedisReplica(t, primary).URL))
		s := redislock.New(replica, nil)
		t.Cleanup(func() { closeAll(t, s) })
		err := s.Init(t.Context())
		faults.MustBeUnknown(t, err) // the replica may take over
		if !strings.Contains(err.Error(), "replica") {
			t.Errorf("Init: %v does not say why", err)
		}
		for name, q := range map[string]driver.AcquireRequest{
			"acquire": ask.Request("free", "b"), "refusal": ask.Request("held", "b"), "repeat": q,
		} {
			_, err := s.Acquire(t.Context(), q)
			readOnly(t, name, err)
		}
		for _, resource := range []string{"held", "free", "idle"} {
			ref.Resource = resource
			renewals, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}})
			readOnly(t, "renewal of "+resource, errors.Join(err, renewals[0].Err))
			releases, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
			readOnly(t, "release of "+resource, errors.Join(err, releases[0].Err))
			answers := 0
			for _, err := range s.List(t.Context(), driver.Filter{Resource: resource}) {
				readOnly(t, "list of "+resource, err)
				answers++
			}
			if answers != 1 {
				t.Errorf("the list of %s has %d answers", resource, answers)
			}
		}
		for _, err := range s.List(t.Context(), driver.Filter{}) {
			readOnly(t, "list", err)
		}
	})
}

func readOnly(t *testing.T, what string, err error) {
	t.Helper()
	faults.MustBeUnknown(t, err)
	if !strings.Contains(err.Error(), "READONLY") {
		t.Errorf("%s: %v", what, err)
	}
}

// When a name leads to another server, and the former server has become its replica, all
// connections follow, and the former server answers no request.
func TestNameLeadsElsewhere(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T, address string) driver.Store{
		"URL": func(t *testing.T, address string) driver.Store {
			return place{Options: redislock.Options{Prefix: redislock.DefaultPrefix}}.byURL(t, "redis://"+address)
		},
		"client": func(t *testing.T, address string) driver.Store {
			return redislock.New(connect(t, &redis.Options{Addr: address}), nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := engines.NewRedis(t)
			after := engines.NewRedisReplica(t, before)
			var target atomic.Value
			target.Store(addresses(before.URL)[0])
			s := open(t, leadingTo(t, &target))
			t.Cleanup(func() { closeAll(t, s) })
			many := func(lockID string) error {
				var all sync.WaitGroup
				errs := make([]error, 30)
				for i := range errs {
					all.Go(func() { _, errs[i] = s.Acquire(t.Context(), ask.Request(driver.NewHoldID().String(), lockID)) })
				}
				all.Wait()
				return errors.Join(errs...)
			}
			alone := func(lockID string) error {
				_, err := s.Acquire(t.Context(), ask.Request(driver.NewHoldID().String(), lockID))
				return err
			}
			if err := errors.Join(alone("a"), many("a")); err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			was, is := connect(t, options(t, before.URL)), connect(t, options(t, after.URL))
			host, port, err := net.SplitHostPort(addresses(after.URL)[0])
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(is.Do(ctx, "REPLICAOF", "NO", "ONE").Err(), was.Do(ctx, "REPLICAOF", host, port).Err()); err != nil {
				t.Fatal(err)
			}
			target.Store(addresses(after.URL)[0])
			ask.Until(t, "one who is alone is served again", func() bool { return alone("b") == nil })
			ask.Until(t, "many are served again", func() bool { return many("b") == nil })
		})
	}
}

// leadingTo returns an address whose new connections lead to the current target.
func leadingTo(t *testing.T, target *atomic.Value) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		_ = l.Close()
		running.Wait()
	})
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // either side may close the connection
		_, _ = to.Close(), from.Close()
	}
	running.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(ctx, "tcp", target.Load().(string))
			if err != nil {
				_ = near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _ = near.Close() })
			running.Go(func() { pass(near, far) })
			running.Go(func() { pass(far, near) })
		}
	})
	return l.Addr().String()
}

// waiting returns the request with a place in the queue.
func waiting(q driver.AcquireRequest) driver.AcquireRequest {
	q.Place, q.Fair = driver.NewPlaceID(), true
	return q
}

// Places are optional: a server that cannot write still refuses, and the refusal names no
// place that is not stored.
func TestRefusalsNeedNoWrite(t *testing.T) {
	onEachRelease(t, func(t *testing.T, release engines.RedisRelease) {
		for name, cause := range map[string]struct{ setting, is, was string }{
			"too few replicas": {"min-replicas-to-write", "1", "0"},
			"memory is full":   {"maxmemory", "1", "0"},
			"cannot save":      {"save", "3600 1", ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir := filepath.Join(t.TempDir(), "gone")
				if err := os.Mkdir(dir, 0o777); err != nil {
					t.Fatal(err)
				}
				server := engines.NewRedisRelease(t, release, "--dir", dir)
				client := connect(t, options(t, server.URL))
				s := newStore(t, client, nil)
				if err := os.Remove(dir); err != nil {
					t.Fatal(err)
				}
				if err := client.BgSave(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
				ask.Until(t, "the server has failed to save its data", func() bool {
					return strings.Contains(client.Info(t.Context(), "persistence").Val(), "rdb_last_bgsave_status:err")
				})
				set := func(value string) {
					t.Helper()
					if err := client.ConfigSet(t.Context(), cause.setting, value).Err(); err != nil {
						t.Fatal(err)
					}
				}
				refusalsNeedNoWrite(t, s, func() { set(cause.is) }, func() { set(cause.was) })
			})
		}
	})
}

func refusalsNeedNoWrite(t *testing.T, s *redislock.Store, begin, end func()) {
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	refused := func(what string, q driver.AcquireRequest, position, waiters, ahead int) {
		t.Helper()
		q.HoldID = driver.NewHoldID()
		if e := ask.Refused(t, s, q); e.Position != position || e.Waiters != waiters || len(e.Ahead) != ahead || len(e.Holders) != 1 {
			t.Errorf("%s: position %d of %d waiters, %d ahead, %d holders, want position %d of %d, and %d ahead",
				what, e.Position, e.Waiters, len(e.Ahead), len(e.Holders), position, waiters, ahead)
		}
	}
	first, second, third := waiting(ask.Request("r", "b")), waiting(ask.Request("r", "c")), waiting(ask.Request("r", "d"))
	begin()
	refused("without places", first, driver.NoPlace, 0, 0)
	_, err := s.Acquire(t.Context(), ask.Request("free", "b"))
	if err == nil || errors.Is(err, driver.ErrHeld) {
		t.Errorf("acquire on a server that may not write: error %v", err)
	}
	end()
	refused("first", first, 0, 1, 0)
	refused("second", second, 1, 2, 1)
	heir := second
	heir.LockID = "heir"
	begin()
	refused("a fresh place", second, 1, 2, 1)
	refused("a place that another inherits", heir, driver.NoPlace, 1, 1)
	refused("a new place", third, driver.NoPlace, 2, 2)
	other := first
	other.Fair = false
	refused("a place of another kind", other, driver.NoPlace, 1, 1)
	_ = ask.Refused(t, s, ask.Request("r", "e"))
	end()
	refused("second, again", second, 1, 2, 1)
	refused("third", third, 2, 3, 2)
	if !ask.Released(t, s, ref, 0) {
		t.Error("the hold was not found")
	}
	ask.Granted(t, s, first)
}

// The same is true for refusals in one run of the script: none counts an unwritten place
// or is prevented by it.
func TestRefusalsTogetherNeedNoWrite(t *testing.T) {
	t.Parallel()
	server := engines.NewRedis(t)
	client := connect(t, options(t, server.URL))
	s := newStore(t, client, nil)
	sent := new(lastCommand)
	client.AddHook(sent)
	set := func(memory string) {
		t.Helper()
		if err := client.ConfigSet(t.Context(), "maxmemory", memory).Err(); err != nil {
			t.Fatal(err)
		}
	}
	ask.Granted(t, s, ask.Request("elsewhere", "a"))
	// together sends these acquires of a resource in one run, and returns the replies.
	together := func(resource string, qs ...driver.AcquireRequest) []any {
		t.Helper()
		keys, requests := make([]any, len(qs)), make([]any, len(qs))
		for i, q := range qs {
			q.Resource = "elsewhere"
			_ = ask.Refused(t, s, q)
			keys[i], requests[i] = redislock.DefaultPrefix+resource, sent.args[5]
		}
		command := append([]any{"EVALSHA", sent.args[1], len(qs)}, keys...)
		set("1")
		replies, err := client.Do(t.Context(), append(append(command, sent.args[4]), requests...)...).Slice()
		set("0")
		if err != nil || len(replies) != len(qs) {
			t.Fatalf("%d replies, error %v", len(replies), err)
		}
		return replies
	}
	refused := func(what string, reply any, queue ...int64) {
		t.Helper()
		values, ok := reply.([]any)
		if !ok || len(values) < 3 {
			t.Fatalf("%s: %v, want a refusal", what, reply)
		}
		var got []int64
		if len(values) > 3 {
			got = []int64{values[3].(int64), values[4].(int64)}
		}
		if !slices.Equal(got, queue) {
			t.Errorf("%s: position and waiters are %v, want %v", what, got, queue)
		}
	}
	for _, resource := range []string{"r", "among readers"} {
		ask.Granted(t, s, ask.Shared(ask.Request(resource, "a"), 0))
	}
	replies := together("r", waiting(ask.Request("", "b")), waiting(ask.Request("", "c")))
	refused("the first", replies[0])
	refused("the second", replies[1])

	// A place that is not written blocks no reader, whose grant is written without
	// places.
	replies = together("among readers",
		waiting(ask.Request("", "b")), ask.Shared(ask.Request("", "c"), 0), waiting(ask.Request("", "d")))
	refused("before the grant", replies[0])
	if token, ok := replies[1].(int64); !ok || token == 0 {
		t.Errorf("a reader among readers: %v, want a grant", replies[1])
	}
	refused("after the grant", replies[2])
	if held := ask.Refused(t, s, waiting(ask.Request("among readers", "f"))); len(held.Holders) != 2 || held.Waiters != 1 || held.Position != 0 {
		t.Errorf("then %d hold it, and %d wait", len(held.Holders), held.Waiters)
	}
}

// lastCommand records the arguments of the last command that runs a script.
type lastCommand struct{ args []any }

func (c *lastCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c *lastCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.EqualFold(cmd.Name(), "evalsha") {
			c.args = cmd.Args()
		}
		return next(ctx, cmd)
	}
}

func (c *lastCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
