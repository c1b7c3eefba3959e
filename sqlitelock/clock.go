package sqlitelock

import (
	"fmt"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// clockSource reads the clocks of the machine.
type clockSource struct {
	wall func() time.Time
	// boot returns the ID of the current boot, the same for all processes of the host, or
	// "" if the system has only a wall clock. An ID with the prefix containerPrefix is that
	// of some processes only: other processes of the host may have another ID in the same
	// boot.
	boot func() (string, error)
	// uptime is the time since the boot, including suspension, the same for all
	// processes. It is called only if boot returned an ID.
	uptime func() time.Duration
}

const containerPrefix = "container "

// clock is the store's clock. All processes that have the file open must read the same
// time from it, and its time must not jump.
type clock struct {
	source clockSource
	bootID string
	base   model.Time

	mu   sync.Mutex
	seen model.Time
}

// now never returns an earlier time than this process has seen before.
func (c *clock) now() model.Time {
	if c.bootID == "" {
		return c.atLeast(model.TimeOf(c.source.wall()))
	}
	return c.atLeast(c.base + c.sinceBoot())
}

func (c *clock) sinceBoot() model.Time { return model.Time(c.source.uptime() / time.Microsecond) }

// atLeast makes the clock return at least t from now on.
func (c *clock) atLeast(t model.Time) model.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = max(c.seen, t)
	return c.seen
}

// anchor sets base for a boot in which no process has opened the file yet: the wall
// clock, but never before a time in the file.
func (c *clock) anchor(newest model.Time) {
	c.base = max(model.TimeOf(c.source.wall()), c.atLeast(newest)) - c.sinceBoot()
}

// check refuses a clock whose time cannot be a token.
func (c *clock) check() error {
	if now := c.now(); now <= 0 || uint64(now) >= driver.MaxToken {
		return fmt.Errorf("%w: the store's clock says %s", driver.ErrUnusable, now.Std().Format(time.RFC3339))
	}
	return nil
}
