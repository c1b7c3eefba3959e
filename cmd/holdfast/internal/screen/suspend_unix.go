//go:build unix

package screen

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"
)

// Suspend stops the job, as Ctrl-Z does where the terminal understands that
// itself, with the terminal as it was before.
func Suspend(s tcell.Screen) {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if s.Suspend() != nil {
		return
	}
	_ = syscall.Kill(0, syscall.SIGTSTP) // fails for nobody's own group
	select {
	case <-continued:
	case <-time.After(100 * time.Millisecond): // nobody could continue it, so it was not stopped
	}
	_ = s.Resume() // without a terminal the next event says so
}
