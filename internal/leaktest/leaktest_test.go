package leaktest

import (
	"os"
	"os/signal"
	"strings"
	"testing"
	"time"
)

// The goroutine that listens for signals never ends and is no leak. The goroutine that runs
// the tests waits for this one: in a binary with TestMain it is that of TestMain.
func TestLeaked(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt)
	defer signal.Stop(signals)
	count := func() int { return strings.Count("\n\n"+others(), "\n\ngoroutine ") }
	before := count()
	if before > 1 {
		t.Fatalf("without a leak: %s", others())
	}
	end := make(chan struct{})
	go stuck(end)
	if left := leaked(50 * time.Millisecond); !strings.Contains(left, "leaktest.stuck") || count() != before+1 {
		t.Errorf("the leak was not found: %s", left)
	}
	close(end)
	for began := time.Now(); count() != before; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("reported after its end: %s", others())
		}
	}
}

func stuck(end <-chan struct{}) { <-end }
