package fitness

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// mutant is a store that misunderstands something: it is asked, and answers, what the
// functions make of a request and of an answer.
type mutant struct {
	driver.Store
	traits   func(*driver.Traits)
	acquire  func(q *driver.AcquireRequest)
	granted  func(s driver.Store, q driver.AcquireRequest, g *driver.Grant)
	renew    func(rs []driver.RenewRequest) []driver.RenewRequest
	renewed  func(s driver.Store, rs []driver.RenewRequest)
	release  func(rs []driver.ReleaseRequest)
	released func(s driver.Store, rs []driver.ReleaseRequest)
	list     func(*driver.Status)
}

func (m mutant) Traits() driver.Traits {
	t := m.Store.Traits()
	if m.traits != nil {
		m.traits(&t)
	}
	return t
}

func (m mutant) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if m.acquire != nil {
		m.acquire(&q)
	}
	g, err := m.Store.Acquire(ctx, q)
	if m.granted != nil && err == nil {
		m.granted(m.Store, q, &g)
	}
	return g, err
}

func (m mutant) Renew(ctx context.Context, rs []driver.RenewRequest) ([]driver.RenewResult, error) {
	asked := rs
	if m.renew != nil {
		asked = m.renew(rs)
	}
	answers, err := m.Store.Renew(ctx, asked)
	for len(answers) < len(rs) {
		answers = append(answers, answers[0])
	}
	if m.renewed != nil {
		m.renewed(m.Store, rs)
	}
	return answers, err
}

func (m mutant) Release(ctx context.Context, rs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if m.release != nil {
		m.release(rs)
	}
	answers, err := m.Store.Release(ctx, rs)
	if m.released != nil {
		m.released(m.Store, rs)
	}
	return answers, err
}

func (m mutant) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		for s, err := range m.Store.List(ctx, f) {
			if m.list != nil {
				m.list(&s)
			}
			if !yield(s, err) {
				return
			}
		}
	}
}

func (m mutant) Waiters(ctx context.Context, f driver.Filter) iter.Seq2[driver.Place, error] {
	return driver.Waiters(ctx, m.Store, f)
}

// empty releases all holds of a resource.
func empty(s driver.Store, resource string, but driver.HoldID) {
	var rs []driver.ReleaseRequest
	for h, err := range s.List(context.Background(), driver.Filter{Resource: resource, Expired: true}) {
		if err == nil && h.HoldID != but {
			rs = append(rs, driver.ReleaseRequest{HoldRef: h.Ref()})
		}
	}
	_, _ = s.Release(context.Background(), rs)
}

func TestMisunderstandings(t *testing.T) {
	for name, c := range map[string]struct {
		mutant mutant
		says   string
	}{
		"a renewal empties the record": {
			mutant{renewed: func(s driver.Store, rs []driver.RenewRequest) { empty(s, rs[0].Resource, driver.HoldID{}) }},
			"a look after a renewal: the answer is that nobody holds it, and should be a record of the exclusive hold of holdfast check a",
		},
		"a renewal extends nothing": {
			mutant{renew: func(rs []driver.RenewRequest) []driver.RenewRequest {
				for i := range rs {
					rs[i].TTL = 1
				}
				return rs
			}},
			"a renewal: the answer is renewed, 15s left, 0 wait, and should be renewed, 30s left",
		},
		"a renewal of two holds renews one": {
			mutant{renew: func(rs []driver.RenewRequest) []driver.RenewRequest { return rs[:1] }},
			"a look after a renewal of two holds: ",
		},
		"a renewal without an end has one": {
			mutant{renew: func(rs []driver.RenewRequest) []driver.RenewRequest {
				rs[0].TTL = min(rs[0].TTL, driver.MaxTTL)
				return rs
			}},
			"a renewal without an end: ",
		},
		"a repeat is another hold": {
			mutant{granted: func() func(driver.Store, driver.AcquireRequest, *driver.Grant) {
				granted := make(map[driver.HoldID]bool)
				return func(_ driver.Store, q driver.AcquireRequest, g *driver.Grant) {
					if granted[q.HoldID] {
						g.Token++
					}
					granted[q.HoldID] = true
				}
			}()},
			"an acquire that is repeated: the answer is another token than the first time",
		},
		"a limit is off by one": {
			mutant{acquire: func(q *driver.AcquireRequest) {
				if q.Limit > 0 {
					q.Limit++
				}
			}},
			"a look after a shared acquire: ",
		},
		"the limits of others do not count": {
			mutant{acquire: func(q *driver.AcquireRequest) { q.Limit = min(q.Limit, 2) }},
			"a shared acquire with another limit: ",
		},
		"who shares is alone": {
			mutant{granted: func(s driver.Store, q driver.AcquireRequest, _ *driver.Grant) { empty(s, q.Resource, q.HoldID) }},
			"a look after a shared acquire beside another: ",
		},
		"there is no takeover delay": {
			mutant{acquire: func(q *driver.AcquireRequest) { q.TakeoverDelay = 0 }},
			"a look after an exclusive acquire: ",
		},
		"what has expired blocks": {
			mutant{acquire: func(q *driver.AcquireRequest) { q.TTL = max(q.TTL, time.Second) }},
			"a renewal of what has expired: the answer is renewed, ",
		},
		"a release has no delay": {
			mutant{release: func(rs []driver.ReleaseRequest) {
				for i := range rs {
					rs[i].After = 0
				}
			}},
			"a look after a release with a delay: the answer is that nobody holds it",
		},
		"a release by anybody counts": {
			mutant{released: func(s driver.Store, rs []driver.ReleaseRequest) { empty(s, rs[0].Resource, driver.HoldID{}) }},
			"a look after a release by somebody who holds nothing: ",
		},
		"names are evaluated": {
			mutant{list: func(s *driver.Status) {
				if s.Owner == "$owner" {
					s.Owner = ""
				}
			}},
			"a look after an exclusive acquire: ",
		},
		"there are no places": {
			mutant{acquire: func(q *driver.AcquireRequest) { q.Place = driver.PlaceID{} }},
			"an acquire that takes a place in the queue: the answer is refused, position -1 among 0 waiters, ",
		},
		"nobody is fair": {
			mutant{acquire: func(q *driver.AcquireRequest) { q.Fair = false }},
			"an acquire that takes the second place: ",
		},
		"a place is never given up": {
			mutant{release: func(rs []driver.ReleaseRequest) {
				for i := range rs {
					rs[i].Place = driver.PlaceID{}
				}
			}},
			"a look after a release that gives up a place: ",
		},
	} {
		inBubble(t, name, func(t *testing.T) {
			s := memlock.New(nil)
			defer s.Close()
			m := c.mutant
			m.Store = s
			r := Check(t.Context(), opens(m))
			mustFind(t, r, "statements", Fail, c.says, "Do not use this store: ")
			mustBeFree(t, s)
		})
	}
}

// What every kind of store answers is understood.
func TestOtherTraits(t *testing.T) {
	for name, change := range map[string]func(*driver.Traits){
		"no queue":  func(t *driver.Traits) { t.Queue = false },
		"no shared": func(t *driver.Traits) { t.Shared = false },
		"no tokens": func(t *driver.Traits) { t.Fencing = driver.FencingNone },
	} {
		inBubble(t, name, func(t *testing.T) {
			s := mutant{Store: faulty(t, sound), traits: change}
			r := Check(t.Context(), opens(s))
			mustFind(t, r, "statements", OK, "as they should")
			mustBeFree(t, s)
		})
	}
}

// hesitant answers who asks for a place only when that has ended.
type hesitant struct{ *drivertest.FaultStore }

func (s hesitant) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := s.FaultStore.Acquire(ctx, q)
	if !q.Place.IsZero() {
		time.Sleep(q.PlaceTTL())
	}
	return g, err
}

// A place that ends too early does not condemn a store that is slow.
func TestSlowPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := faulty(t, sound)
		r := Check(t.Context(), opens(hesitant{f}))
		mustFind(t, r, "statements", Note, "as they should; the store is too slow to try all kinds")
		mustBeFree(t, f)
	})
}
