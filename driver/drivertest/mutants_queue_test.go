package drivertest_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/model"
	"github.com/holdfast-go/holdfast/internal/selftest"
)

// courtesyMutants grant and refuse correctly if nobody waits in the queue. They break who is
// woken and who is served first, which Judge does not check.
var courtesyMutants = map[string]mutant{
	"renewals wake": {
		func(r *rules) {
			r.wakes = func(op drivertest.Op, _ bool) bool { return op != drivertest.Acquire }
		}, "S28a_refusals_wake_nobody",
	},
	"places wake": {
		func(r *rules) {
			r.wakes = func(op drivertest.Op, refused bool) bool {
				return op != drivertest.Renew && (op != drivertest.Acquire || refused)
			}
		}, "S28a_places_wake_nobody",
	},
	"the end of a place always wakes": {
		func(r *rules) {
			r.release = func(rec model.Record, now model.Time, q driver.ReleaseRequest) (model.Record, bool, bool) {
				before := len(rec.Places)
				rec, found, wake := model.Release(rec, now, q)
				return rec, found, wake || len(rec.Places) < before
			}
		}, "S28a_places_wake_nobody",
	},
	"the end of a place never wakes": {
		func(r *rules) {
			r.release = func(rec model.Record, now model.Time, q driver.ReleaseRequest) (model.Record, bool, bool) {
				rec, found, _ := model.Release(rec, now, q)
				return rec, found, found
			}
		}, "S28a_places_wake_nobody",
	},
	"a dead place stops": {
		asked(func(r *model.Record, now model.Time, _ *driver.AcquireRequest) {
			for i := range r.Places {
				if p := &r.Places[i]; p.Fair {
					p.Until = max(p.Until, now+1)
				}
			}
		}), "places_end",
	},
	"a place stops its own acquirer": {
		asked(func(_ *model.Record, _ model.Time, q *driver.AcquireRequest) { q.Place = driver.PlaceID{} }), "places_are_kept",
	},
	"a grant leaves its place": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				places := rec.Places
				rec, g, changed, err := model.Acquire(rec, now, q)
				if changed && err == nil {
					rec.Places = places
				}
				return rec, g, changed, err
			}
		}, "places_stop_others",
	},
	"an acquirer without a place passes": {
		asked(func(r *model.Record, _ model.Time, q *driver.AcquireRequest) {
			if q.Place.IsZero() {
				r.Places = nil
			}
		}), "places_stop_others",
	},
	"a place moves when it is kept": {
		asked(func(r *model.Record, _ model.Time, q *driver.AcquireRequest) {
			if i := slices.IndexFunc(r.Places, func(p model.Place) bool { return p.ID == q.Place }); i >= 0 {
				p := r.Places[i]
				r.Places = append(slices.Delete(r.Places, i, i+1), p)
			}
		}), "places_stop_others",
	},
	"a clean-up ends with a place": {
		func(r *rules) {
			r.release = func(rec model.Record, now model.Time, q driver.ReleaseRequest) (model.Record, bool, bool) {
				before := len(rec.Places)
				rec, found, wake := model.Release(rec, now, q)
				return rec, found || len(rec.Places) < before, wake
			}
		}, "places_are_given_up",
	},
	"a place that is not fair stops others": {
		asked(func(r *model.Record, _ model.Time, _ *driver.AcquireRequest) {
			for i := range r.Places {
				r.Places[i].Fair = true
			}
		}), "places_not_fair_stop_nobody",
	},
	"a place keeps its mode": {
		asked(func(r *model.Record, _ model.Time, q *driver.AcquireRequest) {
			if i := slices.IndexFunc(r.Places, func(p model.Place) bool { return p.ID == q.Place }); i >= 0 {
				r.Places[i].Mode, r.Places[i].Limit = q.Mode, q.Limit
			}
		}), "place_of_another_kind",
	},
	"a queue without an end": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				next, g, changed, err := model.Acquire(rec, now, q)
				var held *driver.HeldError
				if errors.As(err, &held) && !changed && len(rec.Places) == driver.MaxPlaces && !q.Place.IsZero() && held.Position < 0 {
					next.Places = append(slices.Clone(rec.Places), model.Place{ID: q.Place, LockID: q.LockID, Asked: now, Until: now + 1e7, Fair: q.Fair})
					next, changed = model.Touch(next, now), true
				}
				return next, g, changed, err
			}
		}, "places_are_bounded",
	},
	"a sweep drops places": {
		func(r *rules) {
			r.sweep = func(rec model.Record, now model.Time, idle time.Duration) (model.Record, int, bool) {
				rec.Places = nil
				return model.Sweep(rec, now, idle)
			}
		}, "places_survive_a_sweep",
	},
	"a renewal counts nobody": {
		func(r *rules) {
			r.renew = func(rec model.Record, now model.Time, q driver.RenewRequest) (model.Record, driver.RenewResult) {
				rec, result := model.Renew(rec, now, q)
				result.Waiters = 0
				return rec, result
			}
		}, "renewals_count_waiters",
	},
	"keeps places without saying so": {
		func(r *rules) { r.traits.Queue = false }, "queue_is_missing",
	},
	"says that it keeps places": {
		func(r *rules) { r.acquire = placeless }, "places_are_kept",
	},
}

// asked changes the record that an acquire is decided on, but not the holds that a refusal
// leaves.
func asked(change func(*model.Record, model.Time, *driver.AcquireRequest)) func(*rules) {
	return func(r *rules) {
		r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
			rec.Places = slices.Clone(rec.Places)
			change(&rec, now, &q)
			return model.Acquire(rec, now, q)
		}
	}
}

// placeless gives no places.
func placeless(r model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
	q.Place = driver.PlaceID{}
	return model.Acquire(r, now, q)
}

// Histories do not use Watch, and some faults are too rare in them.
func TestCourtesyMutants(t *testing.T) {
	rare := []string{"S28a_refusals_wake_nobody", "S28a_places_wake_nobody", "places_are_bounded", "places_survive_a_sweep"}
	for name, m := range courtesyMutants {
		subtests := []string{m.caught, "S01_random_history"}
		if slices.Contains(rare, m.caught) || name == "keeps places without saying so" {
			subtests = subtests[:1]
		}
		for _, subtest := range subtests {
			t.Run(name+"/"+subtest, func(t *testing.T) {
				t.Parallel()
				selftest.Catches(t, "TestSuite", name, subtest)
			})
		}
	}
}

func TestCourtesyMutantsInRealTime(t *testing.T) {
	for _, name := range []string{"renewals wake", "places wake", "a grant leaves its place", "an acquirer without a place passes"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			selftest.Catches(t, "TestSuite", name+inRealTime, courtesyMutants[name].caught)
		})
	}
}
