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

// server is a fake server. It gets no requests.
type server struct {
	redis.UniversalClient
	_ byte // makes two of them different
}

func request(resource string) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: "a", HoldID: driver.NewHoldID(), TTL: time.Minute}
}

// A call that is queued while a server hangs is not sent after its caller has left,
// because the caller has cleaned up by then.
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
		acquire := func(ctx context.Context, resource string) error {
			_, err := s.Acquire(ctx, request(resource))
			return err
		}
		var all sync.WaitGroup
		// Enough calls to keep all senders busy with one each.
		for i := range maxSenders {
			all.Go(func() { _ = acquire(ctx, fmt.Sprint("early", i)) })
			time.Sleep(2 * stuckAfter)
		}
		all.Go(func() {
			if err := acquire(ctx, "left"); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left: %v", err)
			}
		})
		all.Go(func() {
			if err := acquire(t.Context(), "stayed"); err != nil {
				t.Errorf("the caller that stayed: %v", err)
			}
		})
		synctest.Wait()
		if n := len(sent); n != maxSenders {
			t.Errorf("%d calls were sent, want one for each of %d senders", n, maxSenders)
		}
		leave()
		synctest.Wait()
		time.Sleep(3 * pollEvery)
		close(release)
		all.Wait()
		if sent["holdfast:left"] != 0 || sent["holdfast:stayed"] != 1 {
			t.Errorf("sent %d times for the caller that left, and %d times for the one that stayed", sent["holdfast:left"], sent["holdfast:stayed"])
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A server without calls has no pipeline, because it may have left its Cluster. A server
// that does not answer does not delay the calls for another.
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
		send := func(to *server) (done chan struct{}) {
			calls := []*call{{server: to}}
			by := newCaller(t.Context(), calls)
			if err := s.pipelines.add(by, calls); err != nil {
				t.Error(err)
			}
			return by.woken
		}
		late := send(hangs)
		for range 2 {
			<-send(answers)
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
			t.Error("a closed store accepts calls")
		}
	})
}
