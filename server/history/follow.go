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
	period time.Duration
	cut    bool
	err    error
	// gap: there was no look for longer than usual before the last one.
	gap bool
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
	if l.closed {
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

// see notes what a look shows.
func (l *Log) see(s *sight.Sight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	failed := l.sees.err != nil
	l.sees.err = s.Err
	if s.Err != nil {
		return
	}
	within := driver.Unknown
	if !l.sees.last.IsZero() {
		within = s.At.Sub(l.sees.last)
	}
	l.sees.gap = failed || within == driver.Unknown || within > 2*l.sees.period
	if l.sees.gap {
		l.gaps.add(Gap{l.lastLook(), s.At, Blind})
	}
	l.sees.last, l.sees.period, l.sees.cut = s.At, s.Took+s.Pause, s.Cut
	for i, h := range s.Holds {
		if i%atOnce == atOnce-1 {
			l.breathe()
		}
		l.show(s, h, within)
	}
	if s.Cut {
		return
	}
	n := 0
	for k, h := range l.holds.open {
		if n++; n%atOnce == 0 {
			l.breathe() // the iteration goes on: others only add and delete
			if l.holds.open[k] != h {
				continue
			}
		}
		// It may have been granted or renewed after the store has listed it.
		if h.shown == s.Number || !h.known.Before(s.At) || !h.renewed.Before(s.At) {
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
func (l *Log) show(s *sight.Sight, h driver.Status, within time.Duration) {
	e := beginning(Seen, s.At, h)
	e.Within = within
	k := e.key()
	known, ok := l.holds.open[k]
	switch last, was := l.holds.ended[k]; {
	case ok && known.Token == h.Token:
		l.again(s, known, h, within)
		return
	case was && last.token == h.Token && !last.at.Before(s.At):
		return // it has ended while the store was listing
	case h.Released || !h.Live():
		return // it blocks for a while after its end
	}
	before, fresh := l.holds.begin(e, h.Left, s.At)
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
	is.shown, is.pending = s.Number, e.Held < young
	if e.RenewedAgo != driver.Unknown {
		is.renewed = s.At.Add(-e.RenewedAgo)
	}
}

// again notes what has become of a hold that is known.
func (l *Log) again(s *sight.Sight, known *hold, h driver.Status, within time.Duration) {
	known.shown = s.Number
	if known.pending {
		known.pending = false
		l.push(known.Event, true)
	}
	if !known.leftAt.Before(s.At) {
		return // this server knows it better
	}
	if ago := h.RenewedAgo(); ago != driver.Unknown {
		if at := s.At.Add(-ago); at.After(known.renewed) {
			known.renewed = at
		}
	}
	switch {
	case h.Released:
		l.over(s, known, Released, within)
	case !h.Live():
		l.over(s, known, Expired, within)
	default:
		known.left, known.leftAt = h.Left, s.At
	}
}

// missed notes the end of a hold that a look does not show.
func (l *Log) missed(s *sight.Sight, h *hold, within time.Duration) {
	kind := Gone
	switch {
	case h.overdue(s.At):
		kind = Expired
	case l.sees.gap && h.overBy(s.At):
		kind = Lapsed
	}
	l.over(s, h, kind, within)
}

// overdue reports whether the time of the hold was over by then, and its renewal was due before
// the last that is known of it: Clients renew when a third of the TTL has passed.
func (h *hold) overdue(at time.Time) bool {
	if !h.overBy(at) {
		return false
	}
	since := h.renewed
	if since.IsZero() {
		since = h.began
	}
	return !since.IsZero() && h.leftAt.Sub(since) > h.left
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

// by returns when the hold had ended, if it had at that time: its time may have been over
// before, and another may have had what it held.
func (h *hold) by(at time.Time) time.Time {
	if end, known := h.timeOver(); known && end.Before(at) {
		at = end
	}
	return h.beforeNext(at)
}

// beforeNext returns the time, or that when another had what the hold held, if that was before.
func (h *hold) beforeNext(at time.Time) time.Time {
	if !h.next.IsZero() && h.next.Before(at) {
		at = h.next
	}
	if at.Before(h.leftAt) { // by the clock of the store
		at = h.leftAt
	}
	return at
}

func (l *Log) over(s *sight.Sight, h *hold, kind Kind, within time.Duration) {
	at := h.by(s.At)
	if within != driver.Unknown {
		within = max(within-s.At.Sub(at), 0)
	}
	e := Event{
		Kind: kind, At: at, Within: within, Resource: h.Resource, Ref: h.Ref, Hash: h.Hash, Token: h.Token,
		Held: driver.Unknown, RenewedAgo: driver.Unknown,
	}
	if h.restarted && h.leftAt.IsZero() { // it may have ended long before
		h.began, h.renewed = time.Time{}, time.Time{}
	}
	for _, news := range l.holds.end(&e) {
		l.push(news, true)
	}
}
