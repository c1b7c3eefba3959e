package history

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/sight"
)

// sees is what the Log knows of looks. Log.mu guards it.
type sees struct {
	on     bool
	last   time.Time // when the last look began; zero if there was none
	whole  time.Time // when the last one began that has shown all; zero if there was none
	period time.Duration
	// lately are the periods of the last looks, the oldest replaced first.
	lately [8]time.Duration
	looks  int
	cut    bool
	err    error
	// gap: no look has shown all for longer than usual before the last one.
	gap bool
}

// blindAfter is how long there may be no look at least until the history counts as blind.
const blindAfter = 5 * time.Second

// blind reports whether it is unusual that no look has shown all for so long: one may have hung,
// and the pause after it is long then. A store whose looks all take long is looked at rarely, and
// the history says so.
func (s *sees) blind(since time.Duration) bool {
	usual := s.period
	for _, period := range s.lately {
		if period > 0 {
			usual = min(usual, period)
		}
	}
	return since > max(2*usual, blindAfter)
}

// atOnce is how many holds are looked at before others get at the Log.
const atOnce = 500

// young is the age of holds that this server may have granted just now. It is less than the
// time between two looks.
const young = time.Second

// Follow notes what the looks of the Looker show that did not pass through this server. The
// Looker looks for as long as the Log is open. Follow returns at once; it is called once.
func (l *Log) Follow(looker *sight.Looker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed() {
		return
	}
	l.sees.on = true
	l.looking.Go(func() { l.follow(looker) })
}

func (l *Log) follow(looker *sight.Looker) {
	ctx := l.watching
	for number := uint64(0); ; {
		s, err := looker.After(ctx, number)
		if err != nil {
			return
		}
		number = s.Number
		l.see(s)
		if !l.caughtUp(ctx) {
			return
		}
	}
}

// caughtUp waits until all is written that looks have shown. It reports whether that is so.
func (l *Log) caughtUp(ctx context.Context) bool {
	for {
		l.mu.Lock()
		waiting := l.looks
		l.mu.Unlock()
		if waiting == 0 {
			return true
		}
		select {
		case <-l.room:
		case <-ctx.Done():
			return false
		}
	}
}

// looked is a look that has succeeded.
type looked struct {
	*sight.Sight
	// ended is when it was over: what it has shown was so by then.
	ended time.Time
}

// since returns for how long nobody knows what was, if the look before began then.
func (s looked) since(before time.Time) time.Duration {
	if before.IsZero() {
		return driver.Unknown
	}
	return s.ended.Sub(before)
}

// see notes what a look shows.
func (l *Log) see(seen *sight.Sight) {
	s := looked{seen, seen.At.Add(seen.Took)}
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := l.sees.err != nil
	l.sees.err = s.Err
	if s.Err != nil {
		return
	}
	within := s.since(l.sees.last)
	l.sees.period = s.Took + s.Pause
	l.sees.lately[l.sees.looks%len(l.sees.lately)] = l.sees.period
	l.sees.looks++
	l.sees.last, l.sees.cut = s.At, s.Cut
	for i, h := range s.Holds {
		if i%atOnce == atOnce-1 {
			l.breathe()
		}
		l.show(s, h, within)
	}
	l.holds.forgetNewest(s.At)
	if s.Cut {
		return
	}
	l.sees.gap = failed || l.sees.whole.IsZero() || l.sees.blind(s.At.Sub(l.sees.whole))
	if l.sees.gap {
		l.gaps.add(Gap{l.lastLook(), s.At, Blind})
	}
	within = s.since(l.sees.whole)
	l.sees.whole = s.At
	n := 0
	for k, h := range l.holds.open {
		if n++; n%atOnce == 0 {
			l.breathe() // the iteration goes on: others only add and delete
			if l.holds.open[k] != h {
				continue
			}
		}
		// It may have been granted or renewed after the store has listed it, or the next one
		// if it is lost.
		if h.shown == s.Number || !h.known.Before(s.At) || !h.renewed.Before(s.At) || !h.lost.Before(s.At) {
			continue
		}
		l.missed(s, h, within)
	}
}

// breathe lets others at the Log.
func (l *Log) breathe() {
	l.mu.Unlock()
	l.mu.Lock()
}

// show notes a hold that a look shows.
func (l *Log) show(s looked, h driver.Status, within time.Duration) {
	e := beginning(Seen, s.ended, h)
	e.Within = within
	k := e.key()
	known, ok := l.holds.open[k]
	switch last, was := l.holds.ended[k]; {
	case ok && known.Token == h.Token:
		l.again(s, known, h, within)
		return
	case was && (last.token > h.Token || last.token == h.Token && !last.at.Before(s.At)), l.holds.passed(h):
		return // it has ended while the store was listing
	case h.Released || !h.Live():
		return // it blocks for a while after its end
	}
	before, fresh := l.holds.begin(e, h.LockID, s.ended)
	for _, b := range before {
		l.push(b, true)
	}
	if !fresh {
		return
	}
	is, ok := l.holds.open[k]
	if !ok {
		return // there are too many: each look would note it
	}
	if e.Held >= young {
		l.push(e, true)
	}
	is.shown, is.alive, is.idle, is.pending = s.Number, s.At, idleOf(h), e.Held < young
	if e.RenewedAgo != driver.Unknown {
		is.renewed = s.ended.Add(-e.RenewedAgo)
	}
}

// again notes what has become of a hold that is known.
func (l *Log) again(s looked, known *hold, h driver.Status, within time.Duration) {
	known.shown = s.Number
	if known.lock == (Hash{}) { // it is the same at each look
		known.lock = hashOfLock(h.LockID)
	}
	if known.pending {
		known.pending = false
		l.push(known.Event, true)
	}
	if !known.leftAt.Before(s.At) || !known.next.IsZero() {
		return // this server knows it better
	}
	if ago := h.RenewedAgo(); ago != driver.Unknown {
		if at := s.ended.Add(-ago); at.After(known.renewed) {
			known.renewed = at
		}
	}
	switch {
	case !known.lost.IsZero() && !known.lost.Before(s.At): // the next look knows
	case !known.lost.IsZero() && !h.Live():
		l.over(s, known, Lost, within)
	case h.Released:
		l.over(s, known, Released, within)
	case !h.Live():
		l.over(s, known, Expired, within)
	default:
		known.left, known.leftAt, known.idle, known.alive = h.Left, s.ended, idleOf(h), s.At
		known.lost = time.Time{} // it was not the holder who learned that
	}
}

// missed notes the end of a hold that a look does not show.
func (l *Log) missed(s looked, h *hold, within time.Duration) {
	kind := Gone
	switch {
	case !h.lost.IsZero():
		kind = Lost
	case h.overdue(s.At):
		kind = Expired
	case l.sees.gap && (h.overBy(s.At) || h.overSince(l.gaps.until, s.At)):
		kind = Lapsed
	}
	l.over(s, h, kind, within)
}

// overdue reports whether the time of the hold was over by then, and its renewal was due before
// the last that is known of it: Clients renew when a third of the TTL has passed.
func (h *hold) overdue(at time.Time) bool { return h.overBy(at) && h.idle > h.left }

// idleOf returns for how long the hold was not renewed when the store has listed it; 0 if that
// is not known. The answer may have come later.
func idleOf(h driver.Status) time.Duration {
	idle := h.RenewedAgo()
	if idle == driver.Unknown {
		idle = h.Age()
	}
	return max(idle, 0)
}

// overBy reports whether the time of the hold was over by then, as far as is known.
func (h *hold) overBy(at time.Time) bool {
	end, known := h.timeOver()
	return known && !end.After(at)
}

// timeOver returns when the time of the hold is over, if that is known.
func (h *hold) timeOver() (end time.Time, known bool) {
	if h.leftAt.IsZero() || h.left == driver.Forever || h.left == driver.Unknown || h.renewed.After(h.leftAt) {
		return time.Time{}, false
	}
	return h.leftAt.Add(h.left), true
}

// ofBefore reports whether all that is known of the hold is from the process before.
func (h *hold) ofBefore() bool { return h.restarted && h.leftAt.IsZero() }

// overSince reports whether the time of a hold of the process before was over, if nobody has
// renewed it since then.
func (h *hold) overSince(last, at time.Time) bool {
	return h.ofBefore() && !last.IsZero() && h.left >= 0 && h.left != driver.Forever && at.Sub(last) > h.left
}

// beforeNext returns the time, or that when another had what the hold held, if that was before.
func (h *hold) beforeNext(at time.Time) time.Time {
	if !h.next.IsZero() && h.next.Before(at) {
		at = h.next
	}
	if at.Before(h.alive) { // by the clock of the store
		at = h.alive
	}
	return at
}

func (l *Log) over(s looked, h *hold, kind Kind, within time.Duration) {
	at := s.ended
	switch end, known := h.timeOver(); {
	case kind == Lost:
		at = h.lost
	case kind == Expired && known && end.Before(at):
		at = end // else somebody may have renewed it where it was not seen
	}
	at = h.beforeNext(at)
	if within != driver.Unknown {
		within = max(within-s.ended.Sub(at), 0)
	}
	e := h.ending(kind, at, within)
	for _, news := range l.holds.end(&e) {
		l.push(news, true)
	}
}
