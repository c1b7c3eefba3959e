package history_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
)

// life is what really becomes of an exclusive hold.
type life struct {
	driver.HoldRef
	ttl    time.Duration
	here   bool // its calls pass through this server
	killed bool // its holder does not release it
	began  time.Time
	renews time.Time // when it does next
	ends   time.Time // when its holder releases it or is killed
	over   time.Time // when its TTL is over
	ended  time.Time // zero if it has not
}

// story is a world in which that happens at random.
type story struct {
	*world
	*rand.Rand
	now  map[string]*life
	all  map[string]map[uint64]*life
	late []answer
}

// answer is one of the store that the server has to note when it comes.
type answer struct {
	at   time.Time
	note func()
}

// answers notes what the store has answered to what was sent now. One in four answers is late.
func (s *story) answers(l *life, note func(sent time.Time)) {
	sent := time.Now()
	switch {
	case !l.here:
	case s.IntN(4) == 0:
		s.late = append(s.late, answer{sent.Add(s.upTo(3 * time.Second)), func() { note(sent) }})
	default:
		note(sent)
	}
}

// upTo returns a random time, as exact as the history.
func (s *story) upTo(most time.Duration) time.Duration {
	return time.Duration(s.Int64N(int64(most))).Truncate(time.Millisecond)
}

// arrive notes the answers that have come.
func (s *story) arrive() {
	s.late = slices.DeleteFunc(s.late, func(a answer) bool {
		come := a.at.Before(time.Now())
		if come {
			a.note()
		}
		return come
	})
}

func (s *story) begin(resource string) {
	now := time.Now()
	l := &life{
		ttl: []time.Duration{4 * time.Second, 15 * time.Second, time.Minute}[s.IntN(3)], here: s.IntN(2) == 0, killed: s.IntN(4) == 0,
		began: now, ends: now.Add(s.upTo(time.Minute >> s.IntN(6))),
	}
	l.HoldRef = s.hold(resource, l.ttl)
	l.over, l.renews = now.Add(l.ttl), now.Add(l.ttl/3)
	if l.here {
		s.granted(l.HoldRef, l.ttl)
	}
	s.now[resource], s.all[resource][l.Token] = l, l
}

// goOn does what is due of the hold.
func (s *story) goOn(l *life) {
	switch now := time.Now(); {
	case !now.Before(l.over):
		l.ended = l.over
		s.answers(l, func(time.Time) { s.log.Lost(l.HoldRef) })
	case !now.Before(l.ends) && !l.killed:
		s.release(l.HoldRef)
		l.ended = now
		s.answers(l, func(sent time.Time) { s.log.Released(l.HoldRef, sent) })
	case !now.Before(l.renews) && now.Before(l.ends):
		s.renew(l.HoldRef, l.ttl)
		l.over, l.renews = now.Add(l.ttl), now.Add(l.ttl/3)
		if s.IntN(2) == 0 { // else through another server
			s.answers(l, func(sent time.Time) { s.log.Renewed(l.HoldRef, sent, l.ttl) })
		}
	}
	if !l.ended.IsZero() {
		delete(s.now, l.Resource)
	}
}

// disturb changes what looks see. Looks whose answers come late show no hold that began
// meanwhile: if the server ends then as well, nobody knows for sure what was first.
func (s *story) disturb(restarts bool) {
	some := func(most time.Duration) int64 { return int64(s.IntN(2)) * int64(s.upTo(most)) }
	switch s.IntN(40) {
	case 0:
		s.sees.fail.Store(s.IntN(2) == 0)
	case 1:
		s.sees.hangs.Store(some(20 * time.Second))
	case 2:
		if !restarts {
			s.sees.late.Store(some(8 * time.Second))
		}
	case 3:
		if restarts {
			s.late = nil
			s.stop()
			s.pass(s.upTo(200 * time.Millisecond))
			s.start()
		}
	case 4, 5:
		s.clear()
	}
}

func (s *story) clear() {
	s.sees.fail.Store(false)
	s.sees.hangs.Store(0)
	s.sees.late.Store(0)
}

// judge compares an event with what was.
func (s *story) judge(e history.Event) error {
	l := s.all[e.Resource][e.Token]
	switch {
	case l == nil:
		return errors.New("there was no such hold")
	case e.Kind.Begins() && e.At.Before(l.began):
		return fmt.Errorf("it began at %v", l.began)
	case e.Kind.Begins():
		return nil
	case l.ended.IsZero():
		return errors.New("it has not ended")
	case e.At.Before(l.ended):
		return fmt.Errorf("it ended later, at %v", l.ended)
	case e.Within != driver.Unknown && l.ended.Before(e.At.Add(-e.Within)):
		return fmt.Errorf("it ended before, at %v", l.ended)
	case e.Held != driver.Unknown && e.At.Add(-e.Held).Before(l.began):
		return fmt.Errorf("it was not held for so long, but from %v to %v", l.began, l.ended)
	case e.Kind == history.Released && l.killed, e.Kind == history.Expired && !l.killed:
		return fmt.Errorf("killed: %v", l.killed)
	}
	return nil
}

// Whatever happens, exclusive holds of a resource are one after the other in the history, and
// what it says of them is true. While the answer to a look is on its way, the next hold may begin
// elsewhere: then they are so as far as the history knows when one ended.
func TestRandomLives(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 10
	}
	total := 0
	for seed := range uint64(n) {
		in(t, func(t *testing.T, w *world) {
			s := &story{world: w, Rand: rand.New(rand.NewPCG(seed, 1)), now: make(map[string]*life), all: make(map[string]map[uint64]*life)}
			restarts := seed%2 == 0
			w.vague = !restarts
			names := []string{"a", "b"}
			for _, name := range names {
				s.all[name] = make(map[uint64]*life)
			}
			for range 1000 {
				s.pass(s.upTo(500 * time.Millisecond))
				s.arrive()
				s.disturb(restarts)
				for _, name := range names {
					if l := s.now[name]; l != nil {
						s.goOn(l)
					} else if s.IntN(10) == 0 {
						s.begin(name)
					}
				}
			}
			s.clear()
			for len(s.now) > 0 || len(s.late) > 0 {
				s.pass(time.Second)
				s.arrive()
				for _, l := range s.now {
					s.goOn(l)
				}
			}
			s.pass(10 * time.Minute)
			for _, name := range names {
				events := s.apart(name)
				for _, e := range events {
					if err := s.judge(e); err != nil {
						t.Errorf("%s: %v: %+v", name, err, e)
					}
				}
				total += len(events)
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	if total < 40*n {
		t.Errorf("only %d events in %d stories", total, n)
	}
}
