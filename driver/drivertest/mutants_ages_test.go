package drivertest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/selftest"
)

// ageMutants grant and refuse correctly, but the times at which they read holds and places
// are wrong.
var ageMutants = map[string]mutant{
	"List returns no time": {
		looking(func(s *driver.Status) { s.Seen = time.Time{} }), "ages_of_holds",
	},
	"List returns the time of another clock": {
		looking(func(s *driver.Status) { s.Seen = s.Seen.Add(time.Minute) }), "ages_of_holds",
	},
	"List returns the time of the grant": {
		looking(func(s *driver.Status) { s.Seen = s.Created }), "ages_of_holds",
	},
	"a refusal has the time of another clock for holds": {
		refusing(func(e *driver.HeldError) {
			for i := range e.Holders {
				e.Holders[i].Seen = e.Holders[i].Seen.Add(time.Minute)
			}
		}), "ages_of_holds",
	},
	"a refusal has the time of the last request for places": {
		refusing(func(e *driver.HeldError) {
			for i := range e.Ahead {
				e.Ahead[i].Seen = e.Ahead[i].Asked
			}
		}), "ages_of_places",
	},
}

func looking(change func(*driver.Status)) func(*rules) {
	return func(r *rules) {
		r.statuses = func(rec model.Record, now model.Time, f driver.Filter) []driver.Status {
			all := model.Statuses(rec, now, f)
			for i := range all {
				change(&all[i])
			}
			return all
		}
	}
}

func refusing(change func(*driver.HeldError)) func(*rules) {
	return func(r *rules) {
		r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
			rec, g, changed, err := model.Acquire(rec, now, q)
			var held *driver.HeldError
			if errors.As(err, &held) {
				change(held)
			}
			return rec, g, changed, err
		}
	}
}

func TestAgeMutants(t *testing.T) {
	for name, m := range ageMutants {
		for _, subtest := range []string{m.caught, "S01_random_history"} {
			t.Run(name+"/"+subtest, func(t *testing.T) {
				t.Parallel()
				selftest.Catches(t, "TestSuite", name, subtest)
			})
		}
		t.Run(name+inRealTime, func(t *testing.T) {
			t.Parallel()
			selftest.Catches(t, "TestSuite", name+inRealTime, m.caught)
		})
	}
}
