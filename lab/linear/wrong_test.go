package linear

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

const s = time.Second

// at returns an event without duration about a hold named by its letter.
func at(t time.Duration, op drivertest.Op, outcome drivertest.Outcome, lockID, letter string, token uint64) drivertest.Event {
	e := drivertest.Event{Op: op, Outcome: outcome, TTL: 10 * s, Ref: driver.HoldRef{Resource: "r", LockID: lockID, Token: token}}
	copy(e.Ref.HoldID[:], letter)
	e.Called.Time, e.Answered.Time = t, t
	return e
}

// until extends the event to the time t, with n further events after it.
func until(e drivertest.Event, t time.Duration, n int) drivertest.Event {
	e.Answered.Time, e.Answered.Order = t, n
	return e
}

func shared(e drivertest.Event, limit int) drivertest.Event {
	e.Mode, e.Limit = driver.Shared, limit
	return e
}

func delayed(e drivertest.Event, d time.Duration) drivertest.Event {
	e.TakeoverDelay = d
	return e
}

func after(e drivertest.Event, d time.Duration) drivertest.Event {
	e.After = d
	return e
}

// waiting gives an acquire a fair place with that number.
func waiting(e drivertest.Event, id byte, position int) drivertest.Event {
	e.Place, e.Fair, e.Position = driver.PlaceID{id}, true, position
	return e
}

func history(events ...drivertest.Event) []drivertest.Event {
	for i := range events {
		e := &events[i]
		e.Called.Order, e.Answered.Order = 10*i, 10*(i+e.Answered.Order)+5
	}
	return events
}

const (
	acquire = drivertest.Acquire
	renew   = drivertest.Renew
	release = drivertest.Release
	done    = drivertest.Done
	held    = drivertest.Held
	lost    = drivertest.Lost
	unknown = drivertest.Unknown
)

func TestWrongHistories(t *testing.T) {
	for name, events := range map[string][]drivertest.Event{
		"two holders":          history(at(0, acquire, done, "a", "1", 1), at(s, acquire, done, "b", "2", 2)),
		"two holders, at once": history(until(at(0, acquire, done, "a", "1", 1), 2*s, 1), until(at(s, acquire, done, "b", "2", 2), 3*s, 0)),
		"writer and reader":    history(at(0, acquire, done, "a", "1", 1), shared(at(s, acquire, done, "b", "2", 2), 0)),
		"limit": history(shared(at(0, acquire, done, "a", "1", 1), 2), shared(at(0, acquire, done, "b", "2", 2), 2),
			shared(at(s, acquire, done, "c", "3", 3), 2)),
		"too early":     history(at(0, acquire, done, "a", "1", 1), at(9*s, acquire, done, "b", "2", 2)),
		"in the delay":  history(delayed(at(0, acquire, done, "a", "1", 1), 5*s), at(14*s, acquire, done, "b", "2", 2)),
		"token falls":   history(at(0, acquire, done, "a", "1", 5), at(s, release, done, "a", "1", 5), at(s, acquire, done, "b", "2", 4)),
		"token repeats": history(at(0, acquire, done, "a", "1", 5), at(s, release, done, "a", "1", 5), at(s, acquire, done, "b", "2", 5)),
		"repeat is new": history(at(0, acquire, done, "a", "1", 1), at(s, acquire, done, "a", "1", 2)),
		"lost early":    history(at(0, acquire, done, "a", "1", 1), at(s, renew, lost, "a", "1", 1)),
		"revived":       history(at(0, acquire, done, "a", "1", 1), at(11*s, renew, done, "a", "1", 1)),
		"revived after release": history(at(0, acquire, done, "a", "1", 1), after(at(s, release, done, "a", "1", 1), 5*s),
			at(2*s, renew, done, "a", "1", 1)),
		"refused by nobody":     history(at(0, acquire, held, "a", "1", 0)),
		"refused by expired":    history(at(0, acquire, done, "a", "1", 1), at(10*s, acquire, held, "b", "2", 0)),
		"released another hold": history(at(0, acquire, done, "a", "1", 1), at(s, release, done, "a", "2", 0), at(2*s, acquire, done, "b", "3", 2)),
		"place is passed": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, held, "b", "2", 0), 1, 0),
			at(2*s, release, done, "a", "1", 1), at(3*s, acquire, done, "c", "3", 2)),
		"earlier place is passed": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, held, "b", "2", 0), 1, 0),
			waiting(at(s, acquire, held, "c", "3", 0), 2, 1), at(2*s, release, done, "a", "1", 1), waiting(at(3*s, acquire, done, "c", "4", 2), 2, 0)),
		"places change their order": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, held, "b", "2", 0), 1, 0),
			waiting(at(s, acquire, held, "c", "3", 0), 2, 0)),
		"place ends and stops": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, held, "b", "2", 0), 1, 0),
			at(2*s, release, done, "a", "1", 1), at(12*s, acquire, held, "c", "3", 0)),
		"place stays after its grant": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, held, "b", "2", 0), 1, 0),
			at(2*s, release, done, "a", "1", 1), waiting(at(3*s, acquire, done, "b", "3", 2), 1, 0), at(4*s, release, done, "b", "3", 2),
			at(5*s, acquire, held, "c", "4", 0)),
		"answers cross": history(until(at(0, acquire, held, "a", "1", 0), 3*s, 2), until(at(s, acquire, held, "b", "2", 0), 3*s, 1),
			at(2*s, acquire, held, "c", "3", 0)),
	} {
		t.Run(name, func(t *testing.T) {
			if ok, err := Explained(events); ok || err != nil {
				t.Errorf("explained: %v, %v", ok, err)
			}
			if order := newSearch(operations(events)).order(time.Now().Add(timeout)); order != nil {
				t.Errorf("the search for a long history found an order: %v", order)
			}
		})
	}
}

func TestRightHistories(t *testing.T) {
	for name, events := range map[string][]drivertest.Event{
		"in turn": history(at(0, acquire, done, "a", "1", 1), at(s, acquire, held, "b", "2", 0), at(s, acquire, done, "a", "1", 1),
			at(s, release, done, "a", "1", 1), at(s, acquire, done, "b", "2", 2), at(s, renew, lost, "a", "1", 1)),
		"unknown, granted":       history(at(0, acquire, unknown, "a", "1", 0), at(s, acquire, held, "b", "2", 0)),
		"unknown, not granted":   history(at(0, acquire, unknown, "a", "1", 0), at(s, acquire, done, "b", "2", 2)),
		"unknown, then answered": history(at(0, acquire, unknown, "a", "1", 0), at(s, acquire, held, "b", "2", 0), at(s, acquire, done, "a", "1", 1)),
		"unknown, arrives late": history(at(0, acquire, unknown, "a", "1", 0), at(s, acquire, done, "b", "2", 2), at(s, release, done, "b", "2", 2),
			at(s, release, done, "a", "1", 0), at(90*s, acquire, held, "c", "3", 0)),
		"unknown among readers": history(shared(at(0, acquire, unknown, "a", "1", 0), 0), shared(at(s, acquire, done, "b", "2", 9), 0),
			shared(at(s, acquire, done, "a", "1", 5), 0), at(s, acquire, held, "c", "3", 0)),
		"release unknown, held": history(at(0, acquire, done, "a", "1", 1), at(s, release, unknown, "a", "1", 1), at(s, acquire, held, "b", "2", 0)),
		"release unknown, free": history(at(0, acquire, done, "a", "1", 1), at(s, release, unknown, "a", "1", 1), at(s, acquire, done, "b", "2", 2)),
		"renewal unknown":       history(at(0, acquire, done, "a", "1", 1), at(s, renew, unknown, "a", "1", 1), at(15*s, acquire, held, "b", "2", 0)),
		"in the order of places": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, held, "b", "2", 0), 1, 0),
			waiting(at(s, acquire, held, "c", "3", 0), 2, 1), at(2*s, release, done, "a", "1", 1), at(3*s, acquire, held, "d", "4", 0),
			waiting(at(3*s, acquire, done, "b", "5", 2), 1, 0), at(4*s, release, done, "b", "5", 2), waiting(at(5*s, acquire, done, "c", "6", 3), 2, 0)),
		"place ends": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, held, "b", "2", 0), 1, 0),
			at(2*s, release, done, "a", "1", 1), at(12*s, acquire, done, "c", "3", 2)),
		"place unknown": history(at(0, acquire, done, "a", "1", 1), waiting(at(s, acquire, unknown, "b", "2", 0), 1, 0),
			at(2*s, release, done, "a", "1", 1), at(3*s, acquire, held, "c", "3", 2)),
		"at once":                    history(until(at(0, acquire, held, "a", "1", 0), 3*s, 1), until(at(s, acquire, done, "b", "2", 1), 2*s, 0)),
		"expires during the request": history(at(0, acquire, done, "a", "1", 1), until(at(9*s, acquire, done, "b", "2", 2), 11*s, 0)),
	} {
		t.Run(name, func(t *testing.T) {
			Check(t, events)
			ops := operations(events)
			if order := newSearch(ops).order(time.Now().Add(timeout)); order == nil || !sound(order, ops) {
				t.Errorf("the search for a long history found the order %v", order)
			}
		})
	}
}

// Many acquirers repeat an acquire without getting answers, and release afterwards, round after
// round. One of them held the resource for a while. If that was impossible, Check finds it only
// among few acquirers.
func TestManyUnanswered(t *testing.T) {
	for name, c := range map[string]struct {
		rounds, acquirers int
		refused           time.Duration // when another request in the round is refused
		limit             time.Duration
		want              bool
		err               error
	}{
		"while a request holds it": {10, 20, 9 * s, timeout, true, nil},
		"impossible":               {1, 2, 30 * s, timeout, false, nil},
		"impossible, among many":   {10, 20, 30 * s, s, false, ErrTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			var events []drivertest.Event
			for round := range c.rounds {
				begin := time.Duration(round) * 100 * s
				who := func(i int) (lockID, letter string) {
					return fmt.Sprint("acquirer ", i, " of ", round), fmt.Sprint(round, ".", i)
				}
				for n := range 5 * c.acquirers {
					lockID, letter := who(n % c.acquirers)
					e := at(begin, acquire, unknown, lockID, letter, 0)
					e.Err = ErrSettled
					events = append(events, until(e, begin+10*s, 5*c.acquirers-n))
				}
				events = append(events, at(begin+c.refused, acquire, held, "another", fmt.Sprint("not ", round), 0))
				for i := range c.acquirers {
					lockID, letter := who(i)
					events = append(events, at(begin+31*s, release, done, lockID, letter, 0))
				}
				token := uint64(round + 1)
				events = append(events, at(begin+40*s, acquire, done, "one", fmt.Sprint("one ", round), token),
					at(begin+41*s, release, done, "one", fmt.Sprint("one ", round), token))
			}
			if ok, _, err := explain(history(events...), c.limit); ok != c.want || !errors.Is(err, c.err) {
				t.Errorf("explained: %v, %v", ok, err)
			}
		})
	}
}

// doubleGrant answers some refusals with a grant. A single one can go unnoticed, if the holder
// was just about to release.
type doubleGrant struct {
	driver.Store
	lies atomic.Int32
}

func (d *doubleGrant) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := d.Store.Acquire(ctx, q)
	var refused *driver.HeldError
	if errors.As(err, &refused) && refused.RetryAfter > 5*time.Millisecond && !refused.BySelf && len(refused.Holders) == 1 &&
		refused.Holders[0].Mode == driver.Exclusive && d.lies.Add(1) <= 20 {
		return driver.Grant{Token: refused.Holders[0].Token + 1, Left: q.TTL}, nil
	}
	return g, err
}

// A few wrong answers among hundreds are found.
func TestDoubleGrantIsFound(t *testing.T) {
	d := &doubleGrant{Store: memlock.New(nil)}
	events := Exercise(t, false, d)
	if d.lies.Load() == 0 {
		t.Fatal("nobody was refused by an exclusive hold")
	}
	if ok, err := Explained(events); ok || err != nil {
		t.Errorf("explained: %v, %v", ok, err)
	}
}

// passing lets some acquirers pass a fair place by removing it from the queue.
type passing struct {
	driver.Store
	lies atomic.Int32
}

func (p *passing) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	g, err := p.Store.Acquire(ctx, q)
	var refused *driver.HeldError
	if !errors.As(err, &refused) || len(refused.Holders) > 0 || refused.Ahead[0].Left < 5*time.Millisecond || p.lies.Add(1) > 20 {
		return g, err
	}
	for _, place := range refused.Ahead {
		ref := driver.HoldRef{Resource: q.Resource, LockID: place.LockID}
		if _, err := p.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref, Place: place.ID}}); err != nil {
			return g, err
		}
	}
	return p.Store.Acquire(ctx, q)
}

// A store that serves some waiters before their turn is found.
func TestPassingIsFound(t *testing.T) {
	p := &passing{Store: memlock.New(nil)}
	events := Exercise(t, false, p)
	if p.lies.Load() == 0 {
		t.Fatal("nobody was refused because of a place")
	}
	if ok, err := Explained(events); ok || err != nil {
		t.Errorf("explained: %v, %v", ok, err)
	}
}

// sound rejects wrong orders.
func TestSound(t *testing.T) {
	ops := operations(history(
		until(at(0, acquire, held, "b", "2", 0), 3*s, 1), until(at(s, acquire, done, "a", "1", 1), 2*s, 0),
		at(4*s, release, unknown, "a", "1", 1), at(5*s, acquire, done, "c", "3", 2),
	))
	for name, c := range map[string]struct {
		order []int
		want  bool
	}{
		"as it was":              {[]int{1, 0, 2, 3}, true},
		"released too early":     {[]int{1, 2, 0, 3}, false},
		"refused by nobody":      {[]int{0, 1, 2, 3}, false},
		"without the release":    {[]int{1, 0, 3}, false},
		"without the refusal":    {[]int{1, 2, 3}, false},
		"twice":                  {[]int{1, 1, 0, 2, 3}, false},
		"nothing":                {nil, false},
		"the last before others": {[]int{3, 1, 0, 2}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := sound(c.order, ops); got != c.want {
				t.Errorf("sound: %v", got)
			}
		})
	}
}
