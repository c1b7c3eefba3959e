package explore

import (
	"fmt"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// world limits what may happen, and says which rules of the protocol are broken. Clocks do not
// drift, so there is no margin. At most len(state.net) messages are in flight: a step that
// would send one more is not taken.
type world struct {
	ttl, short int8    // TTL of a lease, and of some renewals
	until      int8    // the clock stops at this time
	holdIDs    [2]int8 // how many each Client may use
	tries      [2]int8 // attempts with one hold ID
	renewals   [2]int8
	doubles    int8 // how many messages may arrive twice
	sweeps     bool
	idle       int8 // how long a record must be unused before it is deleted

	deadlineFromAnswer bool // count the deadline from the answer instead of from the first send
	repeatAnew         bool // repeat with a new hold ID, and forget the old one
	noCleanUp          bool
	stopAtFirstFound   bool // a clean-up ends when it has released the grant of one of several attempts
	stopAtAnyAnswer    bool // a clean-up ends with any answer after its time, even to a release sent before that
	forgetStrays       bool // forget earlier attempts than the granted one
	releaseByLockID    bool
	renewBackwards     bool // a renewal sets the end to now + TTL, even if that is earlier
	deleteAtOnce       bool // a record is deleted as soon as it has no hold
}

func (w world) begin() state { return state{now: 1} }

// steps passes each possible next step to tell.
func (w world) steps(s state, tell func(step, state, string)) {
	emit := func(t step, next state, wrong string) {
		w.settle(&next)
		next.order()
		tell(t, next, wrong)
	}
	for who := range int8(len(s.clients)) {
		w.clientSteps(s, who, emit)
	}
	for i, m := range s.net {
		switch {
		case m.kind == none:
		case m.answer:
			next := s
			next.net[i] = message{}
			if w.handleAnswer(&next, m) {
				emit(step{"hears: ", m.from, m}, next, "")
			}
		default:
			next := s
			next.net[i] = message{}
			wrong, ok := w.arrive(&next, m)
			if ok {
				emit(step{"— the store gets:", -1, m}, next, wrong)
			}
			if s.doubled < w.doubles && !m.copy {
				next := s
				next.doubled++
				next.net[i].copy = true
				if wrong, ok := w.arrive(&next, m); ok {
					emit(step{"— the store gets, and will again:", -1, m}, next, wrong)
				}
			}
		}
	}
	if w.sweeps {
		next := s
		idle := w.idle
		if w.deleteAtOnce {
			idle = 0
		}
		r, dropped, remove := model.Sweep(s.record.model(), at(s.now), ms(idle))
		if w.deleteAtOnce {
			remove = len(r.Holds) == 0 && r.Token != 0
		}
		if remove {
			next.record = record{}
		} else {
			next.record = s.record.taken(r)
		}
		if remove || dropped > 0 {
			emit(step{what: "— the store is swept", who: -1}, next, "")
		}
	}
	if s.now < w.until {
		next := s
		next.now++
		emit(step{what: "— a millisecond passes", who: -1}, next, "")
	}
}

// clientSteps emits each step that a Client may take by itself.
func (w world) clientSteps(s state, who int8, emit func(step, state, string)) {
	do := func(what string, act func(*state, *client) bool) {
		next := s
		if act(&next, &next.clients[who]) {
			emit(step{what: what, who: who}, next, "")
		}
	}
	c := s.clients[who]
	switch {
	case c.phase == idle && w.mayAsk(&c, who):
		do("begins to ask", func(s *state, c *client) bool { return w.ask(s, who, c, true) })
	case c.phase == asking && c.waiting:
		do("waits no longer for an answer", func(_ *state, c *client) bool {
			c.waiting = false
			c.unsure++
			return true
		})
	case c.phase == asking:
		if s.now < c.first+w.ttl {
			switch {
			case w.repeatAnew && w.mayAsk(&c, who):
				do("asks again with a new hold ID", func(s *state, c *client) bool { return w.ask(s, who, c, true) })
			case !w.repeatAnew && c.tries < w.tries[who]:
				do("asks again", func(s *state, c *client) bool { return w.ask(s, who, c, false) })
			}
		}
		do("gives up", w.abandon)
	case c.phase == holding:
		if c.renewals < w.renewals[who] {
			for _, ttl := range []int8{w.ttl, w.short} {
				if ttl == 0 || ttl == w.ttl && w.short != 0 && c.renewals%2 == 1 {
					continue
				}
				do(fmt.Sprintf("renews for %d ms", ttl), func(s *state, c *client) bool {
					c.renewals++
					return s.send(message{kind: renew, from: who, id: c.id, token: c.token, sent: s.now, ttl: ttl})
				})
			}
		}
		do("unlocks", func(s *state, c *client) bool {
			m := message{kind: release, from: who, id: c.id, token: c.token}
			if w.releaseByLockID {
				m.any, m.token = true, 0
			}
			if c.stray > s.now && !w.forgetStrays && !c.adopt(orphan{c.id, c.stray, false}) {
				return false
			}
			c.rest()
			return s.send(m)
		})
	}
	for _, o := range c.orphans {
		if o.id != 0 && !s.cleaning(who, o.id) {
			do("cleans up", func(s *state, _ *client) bool {
				return s.send(message{kind: release, from: who, id: o.id, cleaning: true, last: s.now >= o.until})
			})
		}
	}
}

func (w world) mayAsk(c *client, who int8) bool { return c.id < w.holdIDs[who] }

// ask sends an attempt.
func (w world) ask(s *state, who int8, c *client, again bool) bool {
	if again {
		*c = client{phase: asking, id: c.id + 1, first: s.now, renewals: c.renewals, orphans: c.orphans}
	}
	c.tries++
	c.waiting = true
	return s.send(message{kind: acquire, from: who, id: c.id, attempt: c.tries, sent: s.now, ttl: w.ttl})
}

// abandon hands the hold ID over to the cleaner.
func (w world) abandon(s *state, c *client) bool {
	ok := true
	if c.unsure > 0 && !w.noCleanUp {
		ok = c.adopt(orphan{c.id, s.now + w.ttl, c.unsure == 1})
	}
	c.rest()
	return ok
}

func (c *client) adopt(o orphan) bool {
	for i := range c.orphans {
		if c.orphans[i].id == 0 {
			c.orphans[i] = o
			return true
		}
	}
	return false
}

// rest forgets the acquisition, but keeps the counts.
func (c *client) rest() { *c = client{id: c.id, renewals: c.renewals, orphans: c.orphans} }

// arrive lets the store decide a request. It returns which rule this violates, if any, and
// whether there is room for the answer.
func (w world) arrive(s *state, m message) (wrong string, room bool) {
	before := s.record
	r, now := before.model(), at(s.now)
	ref := driver.HoldRef{Resource: "r", LockID: lockID(m.from), HoldID: holdID(m.from, m.id), Token: uint64(m.token)}
	if m.any {
		ref.HoldID = driver.HoldID{}
	}
	answer := m
	answer.answer = true
	switch m.kind {
	case acquire:
		next, g, changed, err := model.Acquire(r, now, driver.AcquireRequest{
			Resource: "r", LockID: ref.LockID, HoldID: ref.HoldID, TTL: ms(m.ttl),
		})
		answer.ok, answer.token = err == nil, int16(g.Token)
		s.record = before.taken(next)
		if changed {
			// A Client cannot know about a message that arrives twice or this late.
			s.record.hold.unavoidable = s.doubled > 0 || s.now >= m.sent+w.ttl
			if s.record.token <= s.token {
				wrong = fmt.Sprintf("token %d was granted after token %d", s.record.token, s.token)
			}
			s.token = s.record.token
		}
	case renew:
		next, result := model.Renew(r, now, driver.RenewRequest{HoldRef: ref, TTL: ms(m.ttl)})
		answer.ok = result.Err == nil
		if w.renewBackwards && answer.ok {
			for i := range next.Holds {
				next.Holds[i].End = now + model.Time(m.ttl)*1000
			}
		}
		s.record = before.taken(next)
	case release:
		next, found, _ := model.Release(r, now, driver.ReleaseRequest{HoldRef: ref})
		answer.ok = found
		s.record = before.taken(next)
	}
	if m.copy || !s.awaited(answer) {
		return wrong, true
	}
	return wrong, s.send(answer)
}

// awaited reports whether the Client would use the answer.
func (s *state) awaited(m message) bool {
	c := &s.clients[m.from]
	switch {
	case m.kind == acquire:
		return c.phase == asking && c.waiting && c.id == m.id && c.tries == m.attempt
	case m.kind == renew:
		return c.phase == holding && c.id == m.id
	}
	return m.cleaning && c.orphan(m.id) != nil
}

func (c *client) orphan(id int8) *orphan {
	for i := range c.orphans {
		if c.orphans[i].id == id {
			return &c.orphans[i]
		}
	}
	return nil
}

// cleaning reports whether a release of the orphan is in flight.
func (s *state) cleaning(who, id int8) bool {
	for _, m := range s.net {
		if m.kind == release && m.cleaning && m.from == who && m.id == id {
			return true
		}
	}
	return false
}

// handleAnswer lets a Client handle an answer.
func (w world) handleAnswer(s *state, m message) bool {
	c := &s.clients[m.from]
	switch {
	case !s.awaited(m):
		return false
	case m.kind == acquire && m.ok:
		return w.granted(s, c, m)
	case m.kind == acquire:
		c.waiting = false
		return w.abandon(s, c)
	case m.kind == renew && m.ok:
		c.deadline = max(c.deadline, m.sent+m.ttl)
	case m.kind == renew:
		c.rest() // lost
	default:
		if o := c.orphan(m.id); m.ok && (o.single || w.stopAtFirstFound) || m.last || w.stopAtAnyAnswer && s.now >= o.until {
			*o = orphan{}
		}
	}
	return true
}

func (w world) granted(s *state, c *client, m message) bool {
	deadline := c.first + w.ttl
	if w.deadlineFromAnswer {
		deadline = s.now + w.ttl
	}
	if s.now >= deadline {
		c.unsure++
		return w.abandon(s, c) // too late
	}
	if h := &s.record.hold; h.owner == m.from && h.id == m.id && h.token == m.token {
		h.known = true
	}
	c.phase, c.waiting, c.deadline, c.token = holding, false, deadline, m.token
	if c.unsure > 0 {
		c.stray = s.now + w.ttl
	}
	c.first, c.tries, c.unsure = 0, 0, 0
	return true
}

// settle applies what happens by itself: deadlines pass, and unneeded answers are dropped.
func (w world) settle(s *state) {
	for i := range s.clients {
		if c := &s.clients[i]; c.phase == holding && s.now >= c.deadline {
			c.rest()
		}
	}
	for i, m := range s.net {
		if m.kind != none && m.answer && !s.awaited(m) {
			s.net[i] = message{}
		}
	}
	if !w.sweeps {
		s.record.touched = 0 // only a sweep reads it
	}
}

// violation returns which rule the state violates, or "".
func (w world) violation(s *state) string {
	a, b := &s.clients[0], &s.clients[1]
	if a.phase == holding && b.phase == holding {
		return fmt.Sprintf("both believe that they hold: A until %d ms, B until %d ms", a.deadline, b.deadline)
	}
	h := &s.record.hold
	live := h.id != 0 && s.now < h.end
	for i, c := range s.clients {
		if c.phase == holding && !(live && int(h.owner) == i && h.id == c.id) {
			return fmt.Sprintf("%c believes until %d ms that it holds, and the store no longer has its hold", 'A'+i, c.deadline)
		}
	}
	if live && !h.known && !h.unavoidable && !s.accountedFor(h) {
		return fmt.Sprintf("an orphan: nobody knows of the hold %c%d, which lives until %d ms", 'A'+h.owner, h.id, h.end)
	}
	return ""
}

// accountedFor reports whether a Client still uses the hold or is going to release it.
func (s *state) accountedFor(h *hold) bool {
	c := &s.clients[h.owner]
	if c.phase != idle && c.id == h.id || c.orphan(h.id) != nil {
		return true
	}
	for _, m := range s.net {
		if m.kind == release && !m.answer && m.from == h.owner && m.id == h.id && m.token == 0 {
			return true
		}
	}
	return false
}
