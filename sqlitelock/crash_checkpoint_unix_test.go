//go:build unix

package sqlitelock_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/sqlitelock"
)

// progress is how many frames of its log SQLite has moved into the file, and how
// many a checkpoint set out to move: while one is under way the second is
// higher. Both are kept in shared memory, at places that SQLite documents
// (nBackfill and nBackfillAttempted in "WAL-mode file format").
type progress struct{ moved, begun uint32 }

func progressIn(shm []byte) progress {
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(shm[at:]) }
	return progress{moved: word(96), begun: word(128)}
}

func (p progress) underWay() bool { return p.moved < p.begun }

// mapShared returns the beginning of SQLite's shared memory. The file stays
// open: to close it would drop SQLite's locks.
func mapShared(path string) ([]byte, error) {
	fd, err := unix.Open(path+"-shm", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED)
}

// crashInCheckpoint kills the process in the middle of a checkpoint.
func (c *crasher) crashInCheckpoint() error {
	for {
		if err := c.tryCheckpoint(); err != nil {
			return err
		}
		var err error
		if c.s, err = c.open(); err != nil {
			return err
		}
	}
}

// tryCheckpoint changes the file and makes a checkpoint, with an ambush laid. If
// that misses its moment, or another process makes a checkpoint, all is closed again.
func (c *crasher) tryCheckpoint() (err error) {
	db, err := rawOpen(c.path)
	if err != nil {
		return err
	}
	shm, err := mapShared(c.path)
	if err != nil {
		return err
	}
	checkpoint := func() error {
		_, err := db.ExecContext(c.ctx, "PRAGMA wal_checkpoint(PASSIVE)")
		return err
	}
	// The first one is let through, to see how long one takes. It also makes the
	// two numbers equal, which differ after a recovery.
	if err := c.changes(); err != nil {
		return err
	}
	start := time.Now()
	if err := checkpoint(); err != nil {
		return err
	}
	took := time.Since(start)
	if progressIn(shm).underWay() {
		// Another process was making a checkpoint, so this one made none.
		return errors.Join(db.Close(), c.s.Close(), unix.Munmap(shm))
	}
	if err := c.changes(); err != nil {
		return err
	}
	// Either one while others may be using the file, or the one that Close makes,
	// if there are no others.
	trap := ambush{c: c, shm: shm, delay: rand.N(took), done: make(chan struct{})}
	if rand.N(2) == 0 {
		go trap.lie()
		err = checkpoint()
		err = errors.Join(err, db.Close(), c.s.Close())
	} else {
		c.closing = func() { go trap.lie() }
		err = errors.Join(db.Close(), c.s.Close())
		c.closing = nil
	}
	trap.over.Store(true)
	<-trap.done
	return errors.Join(err, unix.Munmap(shm))
}

func (c *crasher) changes() error {
	for range c.after {
		if err := c.change(); err != nil {
			return err
		}
	}
	return nil
}

// ambush kills the process some time after a checkpoint began and before it ends.
type ambush struct {
	c     *crasher
	shm   []byte
	delay time.Duration
	over  atomic.Bool
	done  chan struct{}
}

// lie waits for the checkpoint without sleeping: it takes about as long as it
// takes to wake up.
func (a *ambush) lie() {
	defer close(a.done)
	for !progressIn(a.shm).underWay() {
		if a.over.Load() {
			return
		}
	}
	for start := time.Now(); time.Since(start) < a.delay; {
		if a.over.Load() {
			return
		}
	}
	a.c.say(line{Kill: sqlitelock.PointCheckpoint})
	if progressIn(a.shm).underWay() {
		a.c.die()
	}
	a.c.say(line{Missed: true})
}
