package drivertest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// walk sends random requests to a store, without knowing the right answers.
func walk(t *testing.T, s *ruled, r *drivertest.Recorder, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 3))
	ctx := t.Context()
	var asked []driver.AcquireRequest
	var refs []driver.HoldRef
	ttl := func() time.Duration { return time.Duration(1+rnd.IntN(20)) * time.Second }
	for range 400 {
		switch n := rnd.IntN(10); {
		case n < 4 || len(refs) == 0:
			q := driver.AcquireRequest{
				Resource: fmt.Sprint("r", rnd.IntN(2)), LockID: string("aAbcd"[rnd.IntN(5)]), HoldID: driver.NewHoldID(),
				TTL: ttl(), TakeoverDelay: time.Duration(rnd.IntN(2)) * 5 * time.Second,
			}
			if rnd.IntN(3) > 0 {
				q.Mode, q.Limit = driver.Shared, 2+rnd.IntN(5)/4
			}
			if len(asked) > 0 && rnd.IntN(4) == 0 {
				q = asked[max(0, len(asked)-1-rnd.IntN(4))]
			}
			asked = append(asked, q)
			if g, err := r.Acquire(ctx, q); err == nil {
				refs = append(refs, driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token})
			}
		case n < 7:
			ref := refs[max(0, len(refs)-1-rnd.IntN(4))]
			switch rnd.IntN(8) {
			case 0:
				ref.Token = 0
			case 1:
				ref.LockID = "A"
			}
			if rnd.IntN(2) == 0 {
				_, _ = r.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref, After: time.Duration(rnd.IntN(3)) * 4 * time.Second}})
			} else {
				_, _ = r.Renew(ctx, []driver.RenewRequest{{HoldRef: ref, TTL: ttl()}})
			}
		case n < 8:
			for _, err := range r.List(ctx, driver.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
			}
		case n < 9:
			_, _ = r.Sweep(ctx, driver.SweepRequest{Idle: time.Duration(1+rnd.IntN(60)) * time.Second})
		default:
			s.Advance(time.Duration(rnd.IntN(12)) * time.Second)
		}
	}
}

// verdict judges walks through a store with the given rules.
func verdict(t *testing.T, mutate func(*rules)) (wrongs []string) {
	for seed := range uint64(20) {
		rules := sound()
		mutate(rules)
		s := newRuled(rules)
		epoch := s.Now()
		r := drivertest.NewRecorder(s, func() time.Duration { return s.Now().Sub(epoch) }, 0)
		walk(t, s, r, seed)
		wrongs = append(wrongs, drivertest.Judge(r.Events())...)
	}
	return wrongs
}

func TestJudgeAcceptsSoundStore(t *testing.T) {
	if wrongs := verdict(t, func(*rules) {}); len(wrongs) != 0 {
		t.Errorf("%d wrongs, first: %s", len(wrongs), wrongs[0])
	}
}

// Judge finds every mutant by its answers, without the model.
func TestJudgeFindsMutants(t *testing.T) {
	for name, m := range mutants {
		if m.caught == "shared_not_supported" || m.caught == "traits" {
			continue // no answer is wrong by itself
		}
		t.Run(name, func(t *testing.T) {
			if wrongs := verdict(t, m.breaks); len(wrongs) == 0 {
				t.Error("Judge found no wrong answer")
			} else {
				t.Log(wrongs[0])
			}
		})
	}
}
