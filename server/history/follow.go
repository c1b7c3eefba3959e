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
	// atOnce is how many holds are looked at before others get at the Log.
	atOnce = 500
)

// looks is what the Log knows of looks. Log.mu guards it.
type looks struct {
	whole time.Time // when the last one began that has shown all, if there was one
	// usual is the time between two looks. It grows slowly: one look that hangs is a gap, also
	// because the store rests for long then. A store that is always slow is looked at rarely.
	usual time.Duration
	gaps  []Gap // the newest first. It is not changed, but replaced
}

// gap returns the gap from the last look at all of the store until then.
func (l *Log) gap(until time.Time) (g Gap, is bool) {
	g = Gap{l.looks.whole, until}
	if g.From.IsZero() {
		g.From = l.opened
	}
	return g, until.Sub(g.From) > max(shortGap, 2*l.looks.usual)
}

// Follow notes what the looks of the Looker show that did not pass through this server. The
// Looker looks for as long as the Log is open. Follow returns at once; it is called once.
func (l *Log) Follow(looker *sight.Looker) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed() {
		return
	}
	l.state.Looks = true
	l.looking.Go(func() {
		for number := uint64(0); ; {
			s, err := looker.After(l.watching, number)
			if err != nil {
				return
			}
			number = s.Number
			if s.Err == nil {
				l.see(s)
			}
		}
	})
}

// see notes what a look shows.
func (l *Log) see(s *sight.Sight) {
	l.mu.Lock()
	defer l.mu.Unlock()
	dropped := l.state.Dropped
	l.state.Period = s.Took + s.Pause
	for i, h := range s.Holds {
		if i%atOnce == 0 && !l.hasRoom() {
			return
		}
		l.show(s, h)
	}
	if s.Cut {
		return
	}
	n := 0
	for k, h := range l.known {
		if n++; n%atOnce == 0 {
			if !l.hasRoom() {
				return
			}
			if l.known[k] != h { // the iteration goes on: others only add and delete
				continue
			}
		}
		l.miss(s, k, h)
	}
	if l.state.Dropped != dropped {
		return // not all is noted that the look has shown
	}
	if g, is := l.gap(s.At); is {
		l.looks.gaps = append([]Gap{g}, l.looks.gaps[:min(len(l.looks.gaps), maxGaps-1)]...)
	}
	l.looks.whole = s.At
	if l.looks.usual = min(l.state.Period, 2*l.looks.usual); l.looks.usual == 0 {
		l.looks.usual = l.state.Period
	}
}

// hasRoom lets others at the Log, and waits until there is room in the queue. It reports whether
// there is: else the Log is closed.
func (l *Log) hasRoom() bool {
	for {
		full := len(l.queue) > queued/2
		l.mu.Unlock()
		if full {
			select {
			case <-l.room:
			case <-l.watching.Done():
			}
		}
		l.mu.Lock()
		if !full || l.closed() {
			return !l.closed()
		}
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
	began := Moment{l.looks.whole, ended}
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
	if is.Left == driver.Forever || is.Left == driver.Unknown {
		return
	}
	idle := is.RenewedAgo()
	if idle == driver.Unknown {
		idle = is.Age()
	}
	// Clients renew when a third of the TTL has passed.
	h.over, h.late = s.At.Add(s.Took+is.Left), idle > is.Left
}

// miss notes the end of a hold that a look does not show.
func (l *Log) miss(s *sight.Sight, k key, h *known) {
	switch {
	case !h.open():
		if h.noted.Before(s.At) && (h.How != Unknown || s.At.Sub(h.noted) > amendable) {
			delete(l.known, k)
		}
	case h.shown == s.Number, !h.alive.Before(s.At): // it may have begun after the store has listed it
	case h.late && !h.over.IsZero() && !h.over.After(s.At):
		l.end(h, Lost, Moment{h.alive, s.At.Add(s.Took)})
	default:
		l.end(h, Unknown, Moment{h.alive, s.At.Add(s.Took)})
	}
}
