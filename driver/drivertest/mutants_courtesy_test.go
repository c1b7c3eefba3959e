package drivertest_test

import (
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/driver/model"
)

// courtesyMutants grant and refuse as they should. What they break is who is
// woken and who is noted to wait, so Judge has nothing to say about them.
var courtesyMutants = map[string]mutant{
	"renewals wake": {
		func(r *rules) {
			r.wakes = func(op drivertest.Op, _ bool) bool { return op != drivertest.Acquire }
		}, "S28a_refusals_wake_nobody",
	},
	"notes wake": {
		func(r *rules) {
			r.wakes = func(op drivertest.Op, refused bool) bool {
				return op != drivertest.Renew && (op != drivertest.Acquire || refused)
			}
		}, "S28a_notes_wake_nobody",
	},
	"notes at once": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				rec, g, changed, err := model.Acquire(rec, now, q)
				if err != nil && q.Waiting && !changed {
					rec, changed = noting(rec, func(h *model.Hold) {
						if h.Waited == 0 {
							h.Waited = now
						}
					}), true
				}
				return rec, g, changed, err
			}
		}, "waiters_are_noted",
	},
	"notes those who do not wait": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				q.Waiting = true
				return model.Acquire(rec, now, q)
			}
		}, "waiters_are_noted",
	},
	"says that it notes": {
		func(r *rules) { r.acquire = noteless }, "waiters_are_noted",
	},
	"notes without saying so": {
		func(r *rules) { r.traits.Waiters = false }, "waiters_are_not_noted",
	},
	"a renewal loses the note": {
		func(r *rules) {
			r.renew = func(rec model.Record, now model.Time, q driver.RenewRequest) (model.Record, driver.RenewResult) {
				rec, res := model.Renew(rec, now, q)
				if res.Err == nil {
					rec = noting(rec, func(h *model.Hold) {
						if h.LockID == q.LockID {
							h.Waited = 0
						}
					})
				}
				return rec, res
			}
		}, "waiters_are_noted",
	},
	"a note outlives its hold": {
		func(r *rules) {
			notes := map[string]model.Time{}
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				rec, g, changed, err := model.Acquire(rec, now, q)
				if changed && err != nil {
					notes[q.Resource] = now
				} else if changed {
					rec = noting(rec, func(h *model.Hold) { h.Waited = notes[q.Resource] })
				}
				return rec, g, changed, err
			}
		}, "waiters_are_noted",
	},
	"a note is a renewal": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				rec, g, changed, err := model.Acquire(rec, now, q)
				if changed && err != nil {
					rec = noting(rec, func(h *model.Hold) {
						if h.Waited == now {
							h.Renewed = now
						}
					})
				}
				return rec, g, changed, err
			}
		}, "waiters_are_noted",
	},
	"notes each time": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				again := noting(rec, func(h *model.Hold) { h.Waited = 0 })
				if noted, g, changed, err := model.Acquire(again, now, q); changed && err != nil {
					return noted, g, changed, err
				}
				return model.Acquire(rec, now, q)
			}
		}, "notes_are_seldom",
	},
	"notes once": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				if slices.ContainsFunc(rec.Holds, func(h model.Hold) bool { return h.Waited != 0 }) {
					return noteless(rec, now, q)
				}
				return model.Acquire(rec, now, q)
			}
		}, "notes_are_seldom",
	},
	"notes what is in nobody's way": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				rec, g, changed, err := model.Acquire(rec, now, q)
				if err != nil && q.Waiting && !changed {
					all := q // all holds are in its way
					all.Mode, all.Limit = driver.Exclusive, 0
					rec, _, changed, _ = model.Acquire(rec, now, all)
				}
				return rec, g, changed, err
			}
		}, "notes_of_shared_holds",
	},
	"notes the old ones only": {
		func(r *rules) {
			r.acquire = func(rec model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
				rec, g, changed, err := model.Acquire(rec, now, q)
				if changed && err != nil {
					rec = noting(rec, func(h *model.Hold) {
						if h.Waited == now && now-h.Created < model.Time(driver.NoteAfter/time.Microsecond) {
							h.Waited = 0
						}
					})
				}
				return rec, g, changed, err
			}
		}, "notes_of_shared_holds",
	},
}

// noting returns the record with each of its holds changed.
func noting(r model.Record, change func(*model.Hold)) model.Record {
	r.Holds = slices.Clone(r.Holds)
	for i := range r.Holds {
		change(&r.Holds[i])
	}
	return r
}

// noteless notes nothing.
func noteless(r model.Record, now model.Time, q driver.AcquireRequest) (model.Record, driver.Grant, bool, error) {
	q.Waiting = false
	return model.Acquire(r, now, q)
}

// Histories do not watch, and some things are too rare in them.
func TestCourtesyMutants(t *testing.T) {
	for name, m := range courtesyMutants {
		subtests := []string{m.caught, "S01_random_history"}
		if m.caught == "S28a_refusals_wake_nobody" || m.caught == "S28a_notes_wake_nobody" || name == "notes what is in nobody's way" {
			subtests = subtests[:1]
		}
		for _, subtest := range subtests {
			t.Run(name+"/"+subtest, func(t *testing.T) {
				t.Parallel()
				catches(t, name, subtest)
			})
		}
	}
}

// On a clock that only passes a note takes 5 s, so one mutant of those that a
// subtest finds there has to do.
func TestCourtesyMutantsInRealTime(t *testing.T) {
	for _, name := range []string{"renewals wake", "notes wake", "notes at once", "notes those who do not wait"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			catches(t, name+inRealTime, courtesyMutants[name].caught)
		})
	}
}
