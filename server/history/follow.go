package history

import (
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/sight"
)

const (
	// shortGap is what is no gap: some looks that failed, or a restart.
	shortGap = 5 * time.Second
	// maxGaps is how many gaps are kept: the newest.
	maxGaps = 100
)

// gap returns the gap from the last look at all of the store until then.
func (l *Log) gap(until time.Time) (g Gap, is bool) {
	g = Gap{l.looks.Last, until}
	if g.From.IsZero() {
		g.From = l.opened
	}
	return g, until.Sub(g.From) > max(shortGap, 2*l.usual)
}

// Follow notes what the looks of the Looker show that did not pass through this server. The
// Looker looks for as long as the Log is open. Follow returns at once; it is called once.
func (l *Log) Follow(looker *sight.Looker) {
	l.mu.Lock()
	l.state.Looks = true
	l.mu.Unlock()
	l.looking.Go(func() {
		for number := uint64(0); ; {
			s, err := looker.After(l.watching, number)
			if err != nil {
				return
			}
			if number = s.Number; s.Err != nil {
				continue
			}
			select {
			case l.notes <- func() { l.see(s) }:
			case <-l.watching.Done():
				return
			}
		}
	})
}

// see notes what a look shows.
func (l *Log) see(s *sight.Sight) {
	dropped := l.dropped.Load()
	l.state.Period = s.Took + s.Pause
	for _, h := range s.Holds {
		l.show(s, h)
	}
	if s.Cut {
		return
	}
	for k, h := range l.known {
		l.miss(s, k, h)
	}
	if l.dropped.Load() != dropped {
		return // not all is noted that the look has shown
	}
	if g, is := l.gap(s.At); is {
		l.looks.Gaps = append([]Gap{g}, l.looks.Gaps[:min(len(l.looks.Gaps), maxGaps-1)]...)
	}
	l.looks.Last = s.At
	if l.usual = min(l.state.Period, 2*l.usual); l.usual == 0 {
		l.usual = l.state.Period
	}
}

// show notes a hold that a look shows.
func (l *Log) show(s *sight.Sight, h driver.Status) {
	ended := s.At.Add(s.Took) // what it has shown was so by then
	is := l.known[key{h.Resource, hashOf(h.HoldID)}]
	live := !h.Released && h.Left != 0 // it blocks for a while after its end
	switch {
	case is != nil && is.open() && is.Token == h.Token:
		is.shown = s.Number
		switch {
		case !is.alive.Before(s.At): // this server knows it better
		case live:
			is.see(s, h)
		case h.Released:
			l.end(is, Released, Moment{is.alive, ended})
		default:
			l.end(is, Lost, Moment{is.alive, ended})
		}
		return
	case !live, !l.forgot.Before(s.At), is != nil && !is.open() && !is.noted.Before(s.At):
		return // it ended, or may have ended, while the store was listing
	}
	began := Moment{l.looks.Last, ended}
	if age := h.Age(); age != driver.Unknown {
		began = Moment{s.At.Add(-age), ended.Add(-age)}
	}
	if is = l.began(h, "", began); is != nil {
		is.see(s, h)
	}
}

// see takes note of a hold that lives.
func (h *known) see(s *sight.Sight, is driver.Status) {
	h.shown, h.alive, h.over = s.Number, s.At, time.Time{}
	idle := is.RenewedAgo()
	if idle == driver.Unknown {
		idle = is.Age()
	}
	// Clients renew when a third of the TTL has passed.
	if is.Left != driver.Forever && is.Left != driver.Unknown && idle > is.Left {
		h.over = s.At.Add(s.Took + is.Left)
	}
}

// miss notes the end of a hold unless the look has shown it.
func (l *Log) miss(s *sight.Sight, k key, h *known) {
	switch {
	case h.shown == s.Number:
	case !h.open():
		if h.noted.Before(s.At) && (h.How != Unknown || s.At.Sub(h.noted) > amendable) {
			delete(l.known, k)
		}
	case !h.alive.Before(s.At): // it may have begun after the store has listed it
	case !h.over.IsZero() && !h.over.After(s.At):
		l.end(h, Lost, Moment{h.alive, s.At.Add(s.Took)})
	default:
		l.end(h, Unknown, Moment{h.alive, s.At.Add(s.Took)})
	}
}
