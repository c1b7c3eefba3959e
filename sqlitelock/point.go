package sqlitelock

import "modernc.org/sqlite"

// point is a moment in a change, for tests that end the process there.
type point string

// A single change is one statement that is its own transaction: it passes
// pointBegin, pointCommit and pointDone. Several changes together are BEGIN
// IMMEDIATE to COMMIT and pass all but pointCheckpoint. After a change that finds the
// log large comes pointPassive, in a goroutine of its own, and pointRestart if no
// reader was in the way.
const (
	pointBegin      point = "before BEGIN"
	pointBegun      point = "after BEGIN"
	pointWritten    point = "after the write"
	pointCommit     point = "before COMMIT" // in SQLite's commit hook: nothing is in the log yet
	pointDone       point = "after COMMIT"
	pointCheckpoint point = "in a checkpoint" // before the last connection moves the log into the file
	pointPassive    point = "before a passive checkpoint"
	pointRestart    point = "before the log begins anew"
	pointRest       point = "at rest" // not in a change: the watcher waits to be told of one
)

func (s *store) reach(p point) {
	if s.sys.at != nil {
		s.sys.at(p)
	}
}

// hookCommit makes the connection report pointCommit.
func (s *store) hookCommit(c *conn) {
	if s.sys.at == nil {
		return
	}
	c.raw.(sqlite.HookRegisterer).RegisterCommitHook(func() int32 {
		s.reach(pointCommit)
		return 0
	})
}
