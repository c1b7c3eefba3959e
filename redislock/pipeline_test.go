package redislock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// server stands for one that a store asks. No request goes further.
type server struct {
	redis.UniversalClient
	_ byte // so that two are not the same
}

func request(resource string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: "a", HoldID: driver.NewHoldID(), TTL: time.Minute}
}

// What waits in a queue while a server hangs is not sent when its caller has left, who has
// cleaned up by then.
func TestCallersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&server{}, nil)
		release := make(chan struct{})
		var mu sync.Mutex
		sent := make(map[string]int)
		s.pipelines.exec = func(_ context.Context, _ redis.UniversalClient, batch []*call) {
			mu.Lock()
			for _, c := range batch {
				sent[c.key]++
			}
			mu.Unlock()
			<-release
			for _, c := range batch {
				c.reply = int64(7)
				c.finish()
			}
		}
		ctx, leave := context.WithCancel(t.Context())
		asked := func(ctx context.Context, resource string) error {
			_, err := s.Acquire(ctx, request(resource))
			return err
		}
		var all sync.WaitGroup
		// Enough to keep all senders at work, each with one call.
		for i := range mostSenders {
			all.Go(func() { _ = asked(ctx, fmt.Sprint("early", i)) })
			time.Sleep(2 * stuck)
		}
		all.Go(func() {
			if err := asked(ctx, "left"); !errors.Is(err, context.Canceled) {
				t.Errorf("who left: %v", err)
			}
		})
		all.Go(func() {
			if err := asked(t.Context(), "stayed"); err != nil {
				t.Errorf("who stayed: %v", err)
			}
		})
		synctest.Wait()
		if n := len(sent); n != mostSenders {
			t.Errorf("%d were sent, want those of %d senders", n, mostSenders)
		}
		leave()
		synctest.Wait()
		time.Sleep(3 * pollEvery)
		close(release)
		all.Wait()
		if sent["holdfast:left"] != 0 || sent["holdfast:stayed"] != 1 {
			t.Errorf("sent %d times for who left, and %d for who stayed", sent["holdfast:left"], sent["holdfast:stayed"])
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Nothing is kept of a server that nothing is asked of, for it may have left its
// Cluster. What one does not answer holds up nothing that is asked of another.
func TestServersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&server{}, nil)
		hangs, answers := &server{}, &server{}
		release := make(chan struct{})
		s.pipelines.exec = func(_ context.Context, to redis.UniversalClient, batch []*call) {
			if to == hangs {
				<-release
			}
			for _, c := range batch {
				c.finish()
			}
		}
		ask := func(to *server) (done chan struct{}) {
			calls := []*call{{server: to}}
			by := newCaller(t.Context(), calls)
			if err := s.pipelines.add(by, calls); err != nil {
				t.Error(err)
			}
			return by.told
		}
		late := ask(hangs)
		for range 2 {
			<-ask(answers)
		}
		synctest.Wait()
		if n := len(s.pipelines.byServer); n != 1 {
			t.Errorf("there are %d pipelines, want one", n)
		}
		close(release)
		<-late
		synctest.Wait()
		if n := len(s.pipelines.byServer); n != 0 {
			t.Errorf("there are %d pipelines, want none", n)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.pipelines.add(newCaller(t.Context(), nil), nil); err == nil {
			t.Error("a store that is closed takes calls")
		}
	})
}
