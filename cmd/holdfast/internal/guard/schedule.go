package guard

import "time"

// schedule decides when a command gets TERM and when it is killed. The caller reads
// the clock.
type schedule struct {
	killAfter time.Duration
	deadline  time.Duration
	asked     bool          // the command was asked to end, for good
	killAt    time.Duration // once asked
}

// action is what is to be done to a command.
type action int

const (
	nothing action = iota
	ask
	kill
)

// extend moves the deadline. An earlier one changes nothing, nor does one that comes
// after the command was asked to end.
func (s *schedule) extend(deadline time.Duration) { s.deadline = max(s.deadline, deadline) }

// end notes that the command is asked to end now, to be killed at the deadline at
// the latest. It reports whether this is the first time.
func (s *schedule) end(now time.Duration) bool {
	if s.asked {
		return false
	}
	s.asked, s.killAt = true, min(now+s.killAfter, s.deadline)
	return true
}

// next returns what is to be done now and when to look again.
func (s *schedule) next(now time.Duration) (do action, at time.Duration) {
	switch {
	case s.asked && now >= s.killAt:
		return kill, now
	case s.asked:
		return nothing, s.killAt
	case s.deadline == Never:
		return nothing, Never
	case now >= s.deadline:
		s.asked, s.killAt = true, s.deadline
		return kill, now
	case now >= s.deadline-s.killAfter:
		s.asked, s.killAt = true, s.deadline
		return ask, s.deadline
	}
	return nothing, s.deadline - s.killAfter
}

// late reports whether the deadline has passed.
func (s *schedule) late(now time.Duration) bool { return now >= s.deadline }
