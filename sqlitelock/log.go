package sqlitelock

import "context"

// maxLog is the size above which the store restarts the log. SQLite keeps a file of that
// size for later changes. SQLite's own checkpoints are switched off: they are part of a
// commit, even of a renewal's, and never reach the end of the log while several processes
// write all the time.
const maxLog = 4 << 20

// retryGrowth is how much the log grows between two tries. It is small, because a try that
// finds a reader in the way costs no more than a read.
const retryGrowth = maxLog / 16

// mostLog is the size above which a change that is not urgent waits for the running
// attempt to restart the log. The log gets that large if the machine is overloaded and
// the background work falls behind.
const mostLog = 8 * maxLog

// boundLog restarts a large log in the background: that syncs files, which may take long,
// and renewals must not wait for it. If the log is far too large, boundLog returns a
// channel that is closed at the end of the attempt. The caller is in the writer's line,
// and must not wait there.
func (s *store) boundLog() (behind <-chan struct{}) {
	size := s.file.logSize.Load()
	if size <= maxLog {
		return nil
	}
	if max(size-s.tried, s.tried-size) >= retryGrowth && (s.restart == nil || isClosed(s.restart)) {
		done := make(chan struct{})
		s.tried, s.restart = size, done
		s.background.Go(func() {
			defer close(done)
			s.restartLog(s.ctx)
		})
	}
	if size > mostLog {
		return s.restart
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// restartLog moves the log into the file, so that the next change starts a new log.
//
// The first checkpoint does not wait. If a reader is in the way, restartLog ends there:
// the reader may stay for hours, while the log grows. The second checkpoint has the write
// lock, so no process writes. It has little left to move, and waits only for readers that
// have just come, for at most checkpointTimeout.
//
// A failure is not reported. The log then grows until a change fails, which gives the
// reason.
func (s *store) restartLog(ctx context.Context) {
	c := s.checkpointer
	if s.enter(ctx, c, false) != nil {
		return
	}
	defer c.line.Leave()
	// The log of a replaced file must not get into the new file.
	if s.file.checkReplaced() != nil || c.open() != nil {
		return
	}
	s.reach(pointPassive)
	if !checkpoint(c, passiveSQL) {
		return
	}
	s.reach(pointRestart)
	if s.file.checkReplaced() == nil {
		checkpoint(c, restartSQL)
	}
}

// checkpoint reports whether it has moved the log that existed when it began.
func checkpoint(c *conn, text string) (all bool) {
	var busy, frames, copied int64
	err := c.integers(text, nil, &busy, &frames, &copied)
	return err == nil && busy == 0 && copied == frames
}
