package guard

import (
	"testing"
	"time"
)

// Each step is at a moment, in seconds, and wants what is to be done then.
func TestSchedule(t *testing.T) {
	type step struct {
		at     int
		change func(s *schedule, now time.Duration)
		want   action
		next   int // when to look again; -1: never
	}
	extend := func(to int) func(*schedule, time.Duration) {
		return func(s *schedule, _ time.Duration) { s.extend(time.Duration(to) * time.Second) }
	}
	end := func(s *schedule, now time.Duration) { s.end(now) }
	for _, tt := range []struct {
		name    string
		lenient bool
		steps   []step
		cut     bool // a command that ends after the last step
	}{
		{"no news: asked before the deadline, killed at it", false,
			[]step{{0, nil, nothing, 25}, {24, nil, nothing, 25}, {25, nil, ask, 30}, {26, nil, nothing, 30}, {30, nil, kill, 30}}, true},
		{"renewed", false,
			[]step{{0, nil, nothing, 25}, {10, extend(40), nothing, 35}, {34, nil, nothing, 35}}, false},
		{"a renewal overtaken by another", false,
			[]step{{10, extend(40), nothing, 35}, {11, extend(35), nothing, 35}}, false},
		{"a renewal after the request to end is too late", false,
			[]step{{25, nil, ask, 30}, {26, extend(60), nothing, 30}, {30, nil, kill, 30}}, true},
		{"stopped until just before the deadline", false,
			[]step{{29, nil, ask, 30}, {30, nil, kill, 30}}, true},
		{"stopped beyond the deadline", false,
			[]step{{99, nil, kill, 99}}, true},
		{"forced: asked at once, killed after", false,
			[]step{{3, end, nothing, 8}, {8, nil, kill, 8}}, true},
		{"forced shortly before the deadline", false,
			[]step{{24, end, nothing, 29}, {29, nil, kill, 29}}, true},
		{"forced when asked already", false,
			[]step{{25, nil, ask, 30}, {29, end, nothing, 30}, {30, nil, kill, 30}}, true},
		{"lenient", true,
			[]step{{0, nil, nothing, -1}, {99, nil, nothing, -1}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := schedule{killAfter: 5 * time.Second, deadline: 30 * time.Second}
			if tt.lenient {
				s.deadline = Never
			}
			var now time.Duration
			for _, step := range tt.steps {
				now = time.Duration(step.at) * time.Second
				if step.change != nil {
					step.change(&s, now)
				}
				next := time.Duration(step.next) * time.Second
				if step.next == -1 {
					next = Never
				}
				if do, at := s.next(now); do != step.want || at != next {
					t.Fatalf("at %v: do %v, look again at %v; want %v and %v", now, do, at, step.want, next)
				}
			}
			if (s.asked || s.late(now)) != tt.cut {
				t.Errorf("cut: %v, want %v", !tt.cut, tt.cut)
			}
		})
	}
}

func TestScheduleLate(t *testing.T) {
	s := schedule{killAfter: time.Second, deadline: 30 * time.Second}
	if s.late(30*time.Second - 1) {
		t.Error("a command that ended in time counts as cut")
	}
	if !s.late(30 * time.Second) {
		t.Error("a command that ended at its deadline does not count as cut")
	}
}
