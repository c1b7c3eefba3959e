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

// What waits in line while a server hangs is not sent when its caller has left, who has
// cleaned up by then.
func TestCallersWhoLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&server{}, nil)
		release := make(chan struct{})
		var mu sync.Mutex
		sent := make(map[string]int)
		s.lanes.exec = func(_ context.Context, _ redis.UniversalClient, batch []*call) {
			mu.Lock()
			for _, c := range batch {
				sent[c.key]++
			}
			mu.Unlock()
			<-release
			for _, c := range batch {
				c.reply = int64(7)
				c.waiter.replied()
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
		time.Sleep(3 * beat)
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

// The lane to a server that has left ends with what it is at, and serves who has it
// still.
func TestServersThatLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(&server{}, nil)
		s.lanes.exec = func(_ context.Context, _ redis.UniversalClient, batch []*call) {
			for _, c := range batch {
				c.waiter.replied()
			}
		}
		old, stays := &server{}, &server{}
		ask := func(at *lane) {
			w := newWaiter(1)
			at.add([]*call{{waiter: w}})
			if err := s.lanes.pulse.await(t.Context(), w); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		var lanes []*lane
		for _, client := range []*server{old, stays} {
			at, made, err := s.lanes.to(client)
			if err != nil || !made {
				t.Fatalf("a lane: made %v, %v", made, err)
			}
			ask(at)
			if at.senders == 0 {
				t.Fatal("the lane has no sender")
			}
			lanes = append(lanes, at)
		}
		s.lanes.keep([]redis.UniversalClient{stays})
		synctest.Wait()
		if n := lanes[0].senders; n != 0 {
			t.Errorf("the lane to the server that has left has %d senders", n)
		}
		if lanes[1].senders == 0 {
			t.Error("the other has none")
		}
		ask(lanes[0])
		if n := lanes[0].senders; n != 0 {
			t.Errorf("after another request it has %d", n)
		}
		if at, made, _ := s.lanes.to(stays); made || at != lanes[1] {
			t.Error("the server that stays has another lane")
		}
		if _, made, _ := s.lanes.to(old); !made {
			t.Error("who comes back has the lane that ended")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
