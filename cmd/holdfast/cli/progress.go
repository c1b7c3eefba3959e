package cli

import (
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// showProgress shows on stderr, if that is a terminal, how much of the time has
// passed. The returned function removes it.
func showProgress(lasts time.Duration) (stop func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	const steps = 1000
	bar := progressbar.NewOptions(steps, progressbar.OptionSetWriter(os.Stderr), progressbar.OptionSetWidth(40),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false), progressbar.OptionClearOnFinish())
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-tick.C:
				// Never the last step, which would remove the bar.
				_ = bar.Set(min(int(steps*time.Since(began)/lasts), steps-1))
			case <-done:
				_ = bar.Clear()
				return
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}
