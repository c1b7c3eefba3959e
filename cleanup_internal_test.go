package holdfast

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// hanging is a store whose releases get no answer.
type hanging struct{ driver.Store }

func (hanging) Release(ctx context.Context, _ []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that cannot be reached does not make a Client grow without bound, and
// waiters for a forgotten orphan are woken.
func TestOrphansAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New(hanging{memlock.New(nil)}, nil)
		defer func() { _ = c.Close() }()
		told := 0
		var asked []<-chan struct{}
		for i := range mostOrphans + 500 {
			q := driver.AcquireRequest{Resource: fmt.Sprint(i), HoldID: driver.NewHoldID(), TTL: time.Hour}
			asked = append(asked, c.cleanUp(q, 1))
		}
		for _, ch := range asked {
			select {
			case <-ch:
				told++
			default:
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if n := len(c.cleaner.orphans); n != mostOrphans || told != 500 {
			t.Errorf("%d orphans are kept and %d told, want %d and 500", n, told, mostOrphans)
		}
	})
}
