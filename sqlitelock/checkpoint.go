package sqlitelock

import (
	"database/sql/driver"
	"time"
)

// maxLog is how large the log may grow before the store sees to it that it begins
// anew. SQLite's own checkpoints do not get there while several processes write
// all the time: before one is at the end of the log, it has grown. keptLog is what
// is kept of it then, and reserves that much of the disk for later changes.
const (
	maxLog  = 8 << 20
	keptLog = 4 << 20
)

// How long a log is left alone that could not begin anew, and how much it grows
// meanwhile: little where others were in the way for a moment, for one of the next
// tries meets none of them; more each time where somebody stays.
const (
	soon     = maxLog / 32
	minLeave = time.Second
	maxLeave = 30 * time.Second
)

// tries says what came of the tries to have the log begin anew, and when the next is due.
type tries struct {
	same   int   // tries in a row that got no further
	copied int64 // frames of the log that are in the file, after the last try
	leave  time.Duration

	size int64 // of the log at the last try
	grow int64
	next time.Time
}

// boundLog lets the log begin anew if it is large. That is a courtesy to the disk:
// it waits for no reader that stays, for hours perhaps, as it would keep the write
// lock from all others meanwhile. The log grows as long as the reader stays.
func (s *store) boundLog(c *conn) {
	t := &s.tries
	size := s.file.size.Load()
	if size < t.size {
		*t = tries{} // it has begun anew
	}
	if size <= maxLog || size < t.size+t.grow || time.Now().Before(t.next) {
		return
	}
	anew, copied := s.restartLog(c)
	switch {
	case anew: // its size shows with the change after the next
		*t = tries{size: size, grow: maxLog}
	case copied < 0: // another process is at it
		t.size, t.grow = size, soon
	case copied != t.copied:
		*t = tries{size: size, grow: soon, copied: copied}
	case t.same < 3:
		t.same++
		t.size, t.grow = size, soon
	default: // somebody still reads what was there some tries ago
		t.size, t.grow = size, maxLog
		t.leave = min(max(2*t.leave, minLeave), maxLeave)
		t.next = time.Now().Add(t.leave)
	}
}

// restartLog reports whether the log begins anew with the next change, and how much
// of it is in the file. A restart has the write lock while it waits for readers, so
// it comes only where a checkpoint that waits for nobody has got further than the
// last: whoever reads then does not stay.
func (s *store) restartLog(c *conn) (anew bool, copied int64) {
	s.reach(pointPassive)
	_, copied = checkpoint(c, passiveSQL)
	if copied == s.tries.copied {
		return false, copied
	}
	s.reach(pointRestart)
	_ = c.script(waitSQL)
	anew, n := checkpoint(c, restartSQL)
	_ = c.script(waitNotSQL)
	return anew, max(copied, n)
}

// checkpoint reports whether it got to the end of the log, and how much of it is
// in the file: -1 if that is not known.
func checkpoint(c *conn, text string) (all bool, copied int64) {
	var busy, frames int64
	copied = -1
	err := c.query(text, func(row []driver.Value) error {
		return integers(row, &busy, &frames, &copied)
	})
	return err == nil && busy == 0 && copied == frames, copied
}
