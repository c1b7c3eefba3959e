package eslock_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/eslock"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// conflicting is a node that does not retry updates itself, so that the store must handle
// all conflicts. It counts them.
type conflicting struct {
	node
	conflicts atomic.Int64
}

var retries = regexp.MustCompile(`"retry_on_conflict":\d+`)

func (c *conflicting) Perform(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		text, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		text = retries.ReplaceAll(text, []byte(`"retry_on_conflict":0`))
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	}
	res, err := c.node.Perform(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	_ = res.Body.Close()
	res.Body = io.NopCloser(bytes.NewReader(text))
	c.conflicts.Add(int64(bytes.Count(text, []byte(`"status":409`))))
	return res, nil
}

// However many requests change one document at once, each gets its own result, and
// nothing is lost or counted twice.
func TestConflicts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, n node) {
		t.Run("tried again by the store", func(t *testing.T) {
			c := &conflicting{node: n.in(t)}
			s := newStore(t, c, &eslock.Options{Index: n.Index(t)})
			storm(t, s, 6)
			// On a machine that runs one goroutine at a time, there are few conflicts.
			for again := 0; c.conflicts.Load() == 0 && again < 100; again++ {
				storm(t, s, 6)
			}
			if c.conflicts.Load() == 0 {
				t.Error("there were no conflicts")
			}
			t.Logf("%d conflicts", c.conflicts.Load())
		})
		t.Run("tried again by all", func(t *testing.T) { // by the server and by the callers
			storm(t, drivertest.NewRepeater(newStore(t, n.in(t), &eslock.Options{Index: n.Index(t)})), 40)
		})
	})
}

// storm makes this many acquirers share one resource, repeatedly.
func storm(t *testing.T, s driver.Store, acquirers int) {
	t.Helper()
	var granted sync.Map // tokens
	round := func(who string) error {
		q := ask.Shared(ask.Request("r", who), 0)
		g, err := s.Acquire(t.Context(), q)
		if err != nil {
			return err
		}
		if _, twice := granted.LoadOrStore(g.Token, who); twice {
			return fmt.Errorf("token %d was granted twice", g.Token)
		}
		// One of the two requests in a bulk has conflicts.
		ref := driver.HoldRef{Resource: "r", LockID: who, HoldID: q.HoldID, Token: g.Token}
		none := driver.HoldRef{Resource: "r2", LockID: who, HoldID: q.HoldID, Token: 1}
		renewed, err := s.Renew(t.Context(), []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}, {HoldRef: none, TTL: time.Hour}})
		if err != nil || renewed[0].Err != nil || !errors.Is(renewed[1].Err, driver.ErrLost) {
			return fmt.Errorf("renewed %+v, error %v", renewed, err)
		}
		released, err := s.Release(t.Context(), []driver.ReleaseRequest{{HoldRef: ref}})
		if err != nil || released[0].Err != nil || !released[0].Found {
			return fmt.Errorf("released %+v, error %v", released, err)
		}
		return nil
	}
	var all sync.WaitGroup
	for i := range acquirers {
		all.Go(func() {
			for range 5 {
				if err := round(fmt.Sprint("worker ", i)); err != nil {
					t.Errorf("worker %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	last := ask.Granted(t, s, ask.Request("r", "a")) // no holds are left
	if !ask.Released(t, s, last, 0) {
		t.Error("the granted hold does not exist")
	}
}
