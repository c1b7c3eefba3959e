package history

import (
	"context"
	"slices"
	"time"
)

// Gap is a time of which the history does not have all.
type Gap struct {
	// From and To are its bounds, by the clock of the server. To is zero while it lasts.
	From, To time.Time
	Cause    GapCause
}

// GapCause is why there is a gap.
type GapCause string

// The causes.
const (
	// Down: the server was not there.
	Down GapCause = "down"
	// Blind: looks at the store failed, or the server stood still. What others did was not seen.
	Blind GapCause = "blind"
)

const (
	// MaxGaps is how many gaps are kept: the newest.
	MaxGaps = 100
	// shortGap is what is no gap: the time between two looks, or of a restart.
	shortGap = 2 * time.Second
	// joined is how long there may be no gap between two that are kept as one: looks that fail
	// now and then make one gap.
	joined = 30 * time.Second
	// untilEvery is the time between two notes that the history is kept. A gap may begin that
	// much too early after a crash.
	untilEvery = 10 * time.Second
)

// gaps are those of a Log, the newest first. Log.mu guards them.
type gaps struct {
	opened  time.Time
	until   time.Time // until when the process before has kept it; zero if nobody knows
	all     []Gap     // it is not changed, but replaced
	kept    time.Time
	changed bool
}

// open has what the process before has kept.
func (g *gaps) open(ctx context.Context, storage Storage, now time.Time) error {
	g.opened = now
	var err error
	if g.all, g.until, err = storage.Gaps(ctx); err == nil && !g.until.IsZero() {
		g.add(Gap{g.until, now, Down})
	}
	return err
}

// add adds a gap that is over.
func (g *gaps) add(gap Gap) {
	if gap.To.Sub(gap.From) <= shortGap {
		return
	}
	rest := g.all
	if len(rest) > 0 && rest[0].Cause == gap.Cause && gap.From.Sub(rest[0].To) <= joined && !gap.From.Before(rest[0].From) {
		gap.From, rest = rest[0].From, rest[1:]
	}
	g.all = append([]Gap{gap}, rest[:min(len(rest), MaxGaps-1)]...)
	g.changed = true
}

// shown returns the gaps since then, with the one that lasts.
func (l *Log) shown(since time.Time) []Gap {
	var all []Gap
	if l.isBlind(time.Now()) {
		all = append(all, Gap{From: l.lastLook(), Cause: Blind})
	}
	for _, gap := range l.gaps.all {
		if gap.To.After(since) {
			all = append(all, gap)
		}
	}
	return slices.Clip(all)
}

// lastLook returns when the last look began that has shown all, or when the Log was opened.
func (l *Log) lastLook() time.Time {
	if l.sees.whole.IsZero() {
		return l.gaps.opened
	}
	return l.sees.whole
}

// isBlind reports whether there is a gap now.
func (l *Log) isBlind(now time.Time) bool {
	return l.sees.on && (l.sees.err != nil || l.sees.cut || l.sees.blind(now.Sub(l.lastLook())))
}

// keepGaps lets the storage keep the gaps, if that is due or the Log ends.
func (l *Log) keepGaps(last bool) {
	l.mu.Lock()
	g := &l.gaps
	now, all := time.Now(), g.all
	if l.life.Err() != nil || !last && !g.changed && now.Sub(g.kept) < untilEvery/2 {
		l.mu.Unlock()
		return
	}
	until := now
	if l.isBlind(now) { // or it would seem to see
		until = l.lastLook()
	}
	g.kept, g.changed = now, false
	l.mu.Unlock()
	watch := time.AfterFunc(slow, func() { l.failed(now, ErrSlow) })
	defer watch.Stop()
	if err := l.storage.KeepGaps(l.life, all, until); err != nil {
		l.mu.Lock()
		g.changed = true
		l.mu.Unlock()
		if l.life.Err() == nil { // else Close no longer waits, and has its reason
			l.failed(now, err)
		}
	}
}
