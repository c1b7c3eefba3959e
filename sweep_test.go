package holdfast_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// swept is a store that records the times of its sweeps.
type swept struct {
	*memlock.Store
	traits driver.Traits
	sweep  func(context.Context, driver.SweepRequest) (driver.SweepResult, error) // nil: call the store

	mu    sync.Mutex
	at    []time.Time
	calls []driver.SweepRequest
}

func newSwept() *swept {
	s := &swept{Store: memlock.New(nil)}
	s.traits = s.Store.Traits()
	s.traits.Sweeps = true
	return s
}

// times returns the times of the sweeps.
func (s *swept) times() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.at)
}

func (s *swept) Traits() driver.Traits { return s.traits }

func (s *swept) Sweep(ctx context.Context, q driver.SweepRequest) (driver.SweepResult, error) {
	s.mu.Lock()
	s.at = append(s.at, time.Now())
	s.calls = append(s.calls, q)
	s.mu.Unlock()
	if s.sweep != nil {
		return s.sweep(ctx, q)
	}
	return s.Store.Sweep(ctx, q)
}

// sweepingClient makes a Client that sweeps.
func sweepingClient(t *testing.T, s driver.Store, o *holdfast.Options) *holdfast.Client {
	c := holdfast.New(s, o)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// All Clients of a store together sweep about once an hour, and finally no record is left.
func TestClientsSweepTogether(t *testing.T) {
	for _, clients := range []int{1, 20} {
		synctest.Test(t, func(t *testing.T) {
			s := newSwept()
			var cs []*holdfast.Client
			for range clients {
				cs = append(cs, sweepingClient(t, s, nil))
			}
			const hours = 72
			for i := range hours * 6 {
				unlock(t, lock(t, cs[i%len(cs)], fmt.Sprint(i), nil))
				time.Sleep(10 * time.Minute)
			}
			synctest.Wait()
			if n := len(s.times()); n < hours/2 || n > hours+1 {
				t.Errorf("%d Clients swept %d times in %d hours", clients, n, hours)
			}
			times := s.times()
			for i, at := range times[1:] {
				if pause := at.Sub(times[i]); pause < time.Hour {
					t.Errorf("swept again after %v", pause)
				}
			}
			for _, q := range s.calls {
				if q != (driver.SweepRequest{Idle: 24 * time.Hour, Most: 1000}) {
					t.Fatalf("the sweep request is %+v", q)
				}
			}
			r, err := s.Store.Sweep(t.Context(), driver.SweepRequest{Idle: 26 * time.Hour})
			if err != nil || r.Records != 0 {
				t.Errorf("left behind: %+v, %v", r, err)
			}
		})
	}
}

// Short-lived programs sweep together too, although they do not know of each other.
func TestShortLivedClientsSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		for range 7 * 24 * 60 { // one a minute, for a week
			c := holdfast.New(s, nil)
			h := lock(t, c, "job", nil)
			time.Sleep(10 * time.Second)
			unlock(t, h)
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(50 * time.Second)
		}
		synctest.Wait()
		if n := len(s.times()); n < 7 || n > 7*24 {
			t.Errorf("swept %d times in a week", n)
		}
	})
}

// A backlog is swept in pieces, for at most 10 s, and the next Client continues.
func TestSweepIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		left := 30
		s.sweep = func(ctx context.Context, _ driver.SweepRequest) (driver.SweepResult, error) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
				return driver.SweepResult{}, ctx.Err()
			}
			left--
			return driver.SweepResult{Records: 1000, More: left > 0}, nil
		}
		c := sweepingClient(t, s, nil)
		unlock(t, lock(t, c, "r", nil))
		time.Sleep(5 * time.Hour)
		synctest.Wait()
		if left > 0 {
			t.Errorf("%d pieces are left", left)
		}
		times := s.times()
		for i := range times {
			n := 0
			for _, at := range times[i:] {
				if at.Sub(times[i]) < time.Minute {
					n++
				}
			}
			if n > 11 {
				t.Fatalf("%d calls within a minute", n)
			}
		}
	})
}

// Background sweeps are invisible: their failures are not reported, they are not traced, and
// Close does not wait for them.
func TestSweepDisturbsNobody(t *testing.T) {
	for name, sweep := range map[string]func(context.Context, driver.SweepRequest) (driver.SweepResult, error){
		"fails": func(context.Context, driver.SweepRequest) (driver.SweepResult, error) {
			return driver.SweepResult{}, errors.New("no")
		},
		"hangs": func(ctx context.Context, _ driver.SweepRequest) (driver.SweepResult, error) {
			<-ctx.Done()
			return driver.SweepResult{}, ctx.Err()
		},
		"goes on forever": func(context.Context, driver.SweepRequest) (driver.SweepResult, error) {
			time.Sleep(time.Second)
			return driver.SweepResult{More: true}, nil
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newSwept()
			s.sweep = sweep
			var j journal
			var log bytes.Buffer
			c := holdfast.New(s, &holdfast.Options{Trace: j.trace(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
			h := lock(t, c, "r", &holdfast.LockOptions{TTL: 10 * time.Hour})
			synctest.Wait()
			j.take()
			time.Sleep(3 * time.Hour)
			synctest.Wait()
			if len(s.times()) == 0 {
				t.Fatal("the Client did not sweep")
			}
			if got := j.take(); len(got) != 0 {
				t.Errorf("told of %q", got)
			}
			time.Sleep(rand.N(time.Hour))
			alive(t, h)
			began := time.Now()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > time.Second {
				t.Errorf("Close took %v", took)
			}
			if log.Len() > 0 {
				t.Errorf("logged:\n%s", &log)
			}
		})
	}
}

// The hold for the next sweep is listed only if the filter names its resource.
func TestSweepResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		c := sweepingClient(t, s, nil)
		lock(t, c, "r", nil)
		time.Sleep(time.Hour)
		synctest.Wait()
		list := func(f holdfast.Filter) (names []string) {
			for st, err := range c.Admin().Holds(t.Context(), f) {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, st.Resource)
			}
			return names
		}
		if got := list(holdfast.Filter{}); !slices.Equal(got, []string{"r"}) {
			t.Errorf("all: %q", got)
		}
		if got := list(holdfast.Filter{Resource: driver.SweepResource}); !slices.Equal(got, []string{driver.SweepResource}) {
			t.Errorf("by name: %q", got)
		}
	})
}

func TestNoSweep(t *testing.T) {
	for name, test := range map[string]struct {
		opts   holdfast.Options
		sweeps bool
	}{
		"by option":         {holdfast.Options{NoSweep: true}, true},
		"the store does it": {holdfast.Options{}, false},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := newSwept()
			s.traits.Sweeps = test.sweeps
			c := sweepingClient(t, s, &test.opts)
			lock(t, c, "r", nil)
			time.Sleep(10 * time.Hour)
			if n := len(s.times()); n != 0 {
				t.Errorf("swept %d times", n)
			}
			mustBeFree(t, s, driver.SweepResource)
		})
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSwept()
		c := sweepingClient(t, s, nil)
		lock(t, newClient(t, s, nil), "r", nil)
		_, err := c.TryLock(t.Context(), "r", nil)
		mustBeHeld(t, err)
		time.Sleep(10 * time.Hour)
		if n := len(s.times()); n != 0 {
			t.Errorf("a Client that was granted nothing swept %d times", n)
		}
	})
}
