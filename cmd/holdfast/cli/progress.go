package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// showProgress shows on stderr, if that is a terminal, how much of the time has
// passed. The returned function removes it.
func showProgress(lasts time.Duration) (stop func()) {
	if !term.IsTerminal(int(os.Stderr.Fd())) {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for began := time.Now(); ; {
			select {
			case <-tick.C:
				drawBar(os.Stderr, min(1, float64(time.Since(began))/float64(lasts)))
			case <-done:
				clearBar(os.Stderr)
				return
			}
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// barWidth leaves room for the rest of the line on a terminal of 80 columns.
const barWidth = 40

// drawBar draws over the line of before. part is from 0 to 1.
func drawBar(to io.Writer, part float64) {
	full := int(part * barWidth)
	_, _ = fmt.Fprintf(to, "\r%4d%% |%s%s|", int(part*100), strings.Repeat("█", full), strings.Repeat(" ", barWidth-full))
}

// clearBar leaves the cursor where the line begins.
func clearBar(to io.Writer) {
	_, _ = fmt.Fprintf(to, "\r%s\r", strings.Repeat(" ", barWidth+8))
}
