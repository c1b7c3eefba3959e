package sqlitelock

import (
	"context"
	"database/sql/driver"
)

// maxLog is how large the log may grow before it is to begin anew. SQLite keeps as
// much of it then, which reserves that much of the disk for later changes. Its own
// checkpoints are switched off: they come within a commit, a renewal's too, and never
// get to the end of the log while several processes write all the time.
const maxLog = 4 << 20

// tryAfter is how much a log grows that could not begin anew until that is tried
// again: little, for a try that meets a reader costs no more than a read.
const tryAfter = maxLog / 16

// boundLog sees to it that a large log begins anew. Nobody waits for that, least of
// all a renewal: it syncs files, which may take long.
func (s *store) boundLog() {
	size := s.file.size.Load()
	if size <= maxLog {
		return
	}
	c, free := s.keeper.tryGet()
	if !free {
		return // at it
	}
	if size < s.tried { // it has begun anew meanwhile
		s.tried = 0
	}
	if s.tried > 0 && size < s.tried+tryAfter {
		s.keeper.put(c)
		return
	}
	s.tried = size
	go func() { s.keeper.put(s.restartLog(c)) }()
}

// emptyLog is for a disk without room for the log to grow. Once the log is in the file,
// the next change is written over what it has.
func (s *store) emptyLog(ctx context.Context) {
	if c, err := s.keeper.get(ctx); err == nil {
		s.keeper.put(s.restartLog(c))
	}
}

// restartLog moves the log into the file, so that it begins anew with the next change.
//
// A checkpoint that waits for nobody comes first: if it finds a reader in the way, that
// may stay for hours, and the log grows meanwhile. The second, which has the write lock
// so that nobody writes any more, has little left to move, and waits only for readers
// that came a moment ago, for as long as the keeper's connection says.
//
// Nobody is told of a failure. The log grows then, until a change fails that says why.
func (s *store) restartLog(c *conn) *conn {
	if s.file.check() != nil {
		return c // what is in this log must not get into that file
	}
	if c == nil {
		var err error
		if c, err = s.keeper.open(); err != nil {
			return nil
		}
	}
	s.reach(pointPassive)
	if checkpoint(c, passiveSQL) {
		s.reach(pointRestart)
		if s.file.check() == nil {
			checkpoint(c, restartSQL)
		}
	}
	return c
}

// checkpoint reports whether it got to where the log ended when it began.
func checkpoint(c *conn, text string) (all bool) {
	var busy, frames, copied int64
	err := c.query(text, func(row []driver.Value) error {
		return integers(row, &busy, &frames, &copied)
	})
	return err == nil && busy == 0 && copied == frames
}
