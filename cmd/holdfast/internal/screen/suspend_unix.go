//go:build unix

package screen

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gdamore/tcell/v3"
)

// suspend restores the terminal and stops the job. The screen reads Ctrl-Z as a key,
// so the terminal does not do it. An error means that the terminal is gone.
func suspend(s tcell.Screen) error {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	if err := s.Suspend(); err != nil {
		return err
	}
	_ = syscall.Kill(0, syscall.SIGTSTP) // never fails for the own group
	select {
	case <-continued:
	case <-time.After(100 * time.Millisecond): // nobody could continue it, so it was not stopped
	}
	return s.Resume()
}
