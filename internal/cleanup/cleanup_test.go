package cleanup

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storecall"
)

// If the store cannot be reached, a Cleaner does not grow without bound, and callers that
// wait for a dropped orphan are woken.
func TestOrphansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		scope := storecall.NewScope(func() time.Duration { return time.Since(began) })
		c := New(Config{
			Scope: scope,
			Send: func(ctx context.Context, _ []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		defer scope.End()
		defer c.Close(0)
		told := 0
		var asked []<-chan struct{}
		for i := range MostOrphans + 500 {
			ref := driver.HoldRef{Resource: fmt.Sprint(i), HoldID: driver.NewHoldID()}
			asked = append(asked, c.Add(Orphan{Ref: ref, Attempts: 1, Until: time.Hour}))
		}
		for _, ch := range asked {
			select {
			case <-ch:
				told++
			default:
			}
		}
		if n := c.Len(); n != MostOrphans || told != 500 {
			t.Errorf("%d orphans are kept and %d channels closed, want %d and 500", n, told, MostOrphans)
		}
	})
}

// If the store does not answer whether a hold is in use, other checks do not wait for it, and
// Close waits no longer than a call may take.
func TestUsedWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		scope := storecall.NewScope(func() time.Duration { return time.Since(began) })
		var looks atomic.Int32
		c := New(Config{
			Scope: scope,
			Send: func(context.Context, []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
				t.Error("a hold that may be in use was released")
				return nil, nil
			},
			Used: func(ctx context.Context, _ driver.HoldRef) (bool, error) {
				looks.Add(1)
				<-ctx.Done()
				return false, ctx.Err()
			},
		})
		for i := range 50 {
			c.Add(Orphan{Ref: driver.HoldRef{Resource: fmt.Sprint(i), HoldID: driver.NewHoldID()}, Attempts: 1, Until: time.Hour})
		}
		time.Sleep(Patience / 2)
		if n := looks.Load(); n != 1 {
			t.Errorf("Used was called %d times in the time of one call", n)
		}
		scope.Close()
		c.Close(scope.Clock() + 3*time.Second)
		scope.End()
		scope.Leave()
		<-scope.Idle
		if took := time.Since(began) - Patience/2; took < 3*time.Second || took > 4*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}
