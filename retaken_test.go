package holdfast_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// remaining is a store in which an old program, without hold IDs, has retaken the resource
// "taken" with the lock ID that releases it.
type remaining struct{ *memlock.Store }

func (s remaining) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	rs, err := s.Store.Release(ctx, qs)
	for i := range rs {
		rs[i].Remains = qs[i].Resource == "taken"
	}
	return rs, err
}

func TestReleasedButRetaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		c := newClient(t, remaining{memlock.New(nil)}, &holdfast.Options{Trace: j.trace()})
		o := &holdfast.LockOptions{LockID: "id"}
		h := lock(t, c, "taken", o)
		j.take()
		var loss *holdfast.LostError
		if err := h.Unlock(t.Context()); !errors.As(err, &loss) || !errors.Is(err, holdfast.ErrForced) || loss.Resource != "taken" {
			t.Errorf("Unlock: %v", err)
		}
		synctest.Wait()
		if got := j.take(); len(got) == 0 || got[len(got)-1] != "released taken, alive false: lost" {
			t.Errorf("told %q", got)
		}
		if err := h.Unlock(t.Context()); err != nil {
			t.Errorf("Unlock again: %v", err)
		}

		lock(t, c, "taken", o)
		lock(t, c, "free", o)
		ss, err := c.Admin().ReleaseID(t.Context(), "id")
		if !errors.Is(err, holdfast.ErrForced) {
			t.Errorf("ReleaseID: %v", err)
		}
		if len(ss) != 1 || ss[0].Resource != "free" {
			t.Errorf("returned as released: %+v", ss)
		}
	})
}
