package sqlitelock_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// A thousand watchers of a silent file cost next to nothing.
func TestWatchIdle(t *testing.T) {
	if testing.Short() {
		t.Skip("thorough: takes two seconds")
	}
	path := newFile(t)
	s := open(t, path)
	for i := range 1000 {
		watch(t, s, fmt.Sprint("r", i))
	}
	used := func() time.Duration {
		var u syscall.Rusage
		check(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const span = 2 * time.Second
	before := used()
	<-time.After(span)
	share := float64(used()-before) / float64(span)
	t.Logf("1,000 watchers use %.2f %% of a core", 100*share)
	if share > 0.03 { // with -race; benchmarks have the target of 1 %
		t.Errorf("1,000 idle watchers use %.1f %% of a core", 100*share)
	}
}
