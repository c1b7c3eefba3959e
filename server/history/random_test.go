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

	restarts bool
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
		s.granted(l.HoldRef)
	}
	s.now[resource], s.all[resource][l.Token] = l, l
}

// goOn does what is due of the hold.
func (s *story) goOn(l *life) {
	switch now := time.Now(); {
	case !now.Before(l.over):
		l.ended, l.killed = l.over, true // or it was too late: the test stood still
		s.answers(l, func(time.Time) { s.log.Lost(l.HoldRef) })
	case !now.Before(l.ends) && !l.killed:
		s.release(l.HoldRef)
		l.ended = now
		s.answers(l, func(sent time.Time) { s.log.Released(l.HoldRef, sent) })
	case !now.Before(l.renews) && now.Before(l.ends):
		s.renew(l.HoldRef, l.ttl)
		l.over, l.renews = now.Add(l.ttl), now.Add(l.ttl/3)
		if s.IntN(2) == 0 { // else through another server
			s.answers(l, func(sent time.Time) { s.log.Renewed(l.HoldRef, sent) })
		}
	}
	if !l.ended.IsZero() {
		delete(s.now, l.Resource)
	}
}

// disturb changes what looks see.
func (s *story) disturb() {
	some := func(most time.Duration) int64 { return int64(s.IntN(2)) * int64(s.upTo(most)) }
	switch s.IntN(40) {
	case 0:
		s.sees.fail.Store(s.IntN(2) == 0)
	case 1:
		s.sees.hangs.Store(some(20 * time.Second))
	case 2:
		if !s.restarts { // the end of the server would wait for it, and holders stand still
			s.sees.late.Store(some(8 * time.Second))
		}
	case 3:
		if s.restarts {
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

// within reports whether something was when the history says.
func within(at time.Time, m history.Moment) bool { return !at.Before(m.After) && !at.After(m.By) }

// judge compares a hold with what was.
func (s *story) judge(h history.Hold) error {
	l := s.all[h.Resource][h.Token]
	switch {
	case l == nil:
		return errors.New("there was no such hold")
	case !within(l.began, h.Began):
		return fmt.Errorf("it began at %v", l.began)
	case h.How == "":
		return errors.New("it has ended")
	case !within(l.ended, h.Ended):
		return fmt.Errorf("it ended at %v", l.ended)
	case h.How == history.Released && l.killed, h.How == history.Lost && !l.killed:
		return fmt.Errorf("killed: %v", l.killed)
	}
	return nil
}

// Whatever happens, what the history says of holds is true, and it has each once.
func TestRandomLives(t *testing.T) {
	n := 100
	if testing.Short() {
		n = 10
	}
	total := 0
	for seed := range uint64(n) {
		in(t, func(t *testing.T, w *world) {
			s := &story{world: w, Rand: rand.New(rand.NewPCG(seed, 1)), now: make(map[string]*life), all: make(map[string]map[uint64]*life), restarts: seed%2 == 0}
			names := []string{"a", "b"}
			for _, name := range names {
				s.all[name] = make(map[uint64]*life)
			}
			for range 1000 {
				s.pass(s.upTo(500 * time.Millisecond))
				s.arrive()
				s.disturb()
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
				seen := make(map[uint64]bool)
				for _, h := range s.holds(name) {
					if err := s.judge(h); err != nil {
						t.Errorf("%s: %v: %+v", name, err, h)
					}
					if seen[h.Token] {
						t.Errorf("%s: twice: %+v", name, h)
					}
					seen[h.Token] = true
					total++
				}
			}
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		})
	}
	if total < 20*n {
		t.Errorf("only %d holds in %d stories", total, n)
	}
}
