package guard

import "time"

// schedule says when a command is asked to end and when it is killed. It has no
// clock of its own.
type schedule struct {
	killAfter time.Duration
	deadline  time.Duration
	lenient   bool
	asked     bool          // the command was asked to end: nothing undoes that
	killAt    time.Duration // once asked
}

// action is what is to be done to a command.
type action int

const (
	nothing action = iota
	ask
	kill
)

// never is later than any deadline.
const never = time.Duration(1<<63 - 1)

// extend moves the deadline. One that is earlier, or that comes after the command
// was asked to end, changes nothing.
func (s *schedule) extend(deadline time.Duration) { s.deadline = max(s.deadline, deadline) }

// end asks the command to end now, and has it killed at the deadline at the
// latest. It reports whether it was not asked before.
func (s *schedule) end(now time.Duration) bool {
	if s.asked {
		return false
	}
	s.asked, s.killAt = true, min(now+s.killAfter, s.deadline)
	return true
}

// next says what is to be done now and when to look again.
func (s *schedule) next(now time.Duration) (do action, at time.Duration) {
	switch {
	case s.asked && now >= s.killAt:
		return kill, now
	case s.asked:
		return nothing, s.killAt
	case s.lenient:
		return nothing, never
	case now >= s.deadline:
		s.asked, s.killAt = true, s.deadline
		return kill, now
	case now >= s.deadline-s.killAfter:
		s.asked, s.killAt = true, s.deadline
		return ask, s.deadline
	}
	return nothing, s.deadline - s.killAfter
}

// cut reports whether a command that ends now was made to, or is late.
func (s *schedule) cut(now time.Duration) bool {
	return s.asked || !s.lenient && now >= s.deadline
}
