package acquire

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// waitLine names the holder of the lock while this program waits for it. On a terminal it is one
// line, which is redrawn every second and when there is news. Elsewhere, as in a log, it is
// a line after a second, and then one each minute. The methods of nil do nothing. They may
// be called concurrently: a Trace is called in another goroutine than the one that waits,
// and perhaps later.
type waitLine struct {
	terminal *os.File                // nil: stderr is not a terminal
	last     atomic.Pointer[refusal] // nil: nothing to show
	news     chan struct{}
	quit     chan struct{}

	mu    sync.Mutex
	done  chan struct{} // closed when live has ended; nil: it has not begun
	ended bool

	waiting atomic.Bool // a drawing waits for the terminal
	drawn   bool        // of drawNow alone
	advised bool        // of live alone
}

// The times of the lines in a log. A wait that is over before the first needs none.
const (
	firstLogged = time.Second
	nextLogged  = time.Minute
)

// newWaitLine returns the line on stderr.
func newWaitLine() *waitLine {
	w := &waitLine{news: make(chan struct{}, 1), quit: make(chan struct{})}
	if output.IsTerminal(os.Stderr) && !output.LogsJSON() {
		w.terminal = os.Stderr
	}
	return w
}

// show makes the line name the holder of the lock. It does not wait for the terminal:
// a stopped terminal must not stop the acquire.
func (w *waitLine) show(held *holdfast.HeldError, fair bool) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	w.last.Store(&refusal{held, time.Now(), fair})
	if w.done == nil {
		w.done = make(chan struct{})
		go w.live()
	}
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// hide erases the line until there is news.
func (w *waitLine) hide() {
	if w == nil {
		return
	}
	w.last.Store(nil)
	w.draw()
}

// end erases the line for good.
func (w *waitLine) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	done, again := w.done, w.ended
	w.ended = true
	w.mu.Unlock()
	if done == nil || again {
		return
	}
	close(w.quit)
	<-done
	w.hide()
}

func (w *waitLine) live() {
	defer close(w.done)
	if w.terminal == nil {
		w.log()
		return
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-w.news:
		case <-ticker.C:
			w.advise()
		}
		w.draw()
	}
}

// log prints lines until the wait ends.
func (w *waitLine) log() {
	for pause := firstLogged; ; pause = nextLogged {
		select {
		case <-w.quit:
			return
		case <-time.After(pause):
		}
		if last := w.last.Load(); last != nil {
			output.SayEvent("waiting", []slog.Attr{slog.String("resource", last.Resource)}, "%s", last.waiting(time.Now()))
			w.advise()
		}
	}
}

// advise names --fair, once, if others wait beside the acquirer and may come first.
func (w *waitLine) advise() {
	last := w.last.Load()
	if w.advised || last == nil || last.fair || !strings.HasPrefix(last.position(), ", beside ") {
		return
	}
	w.advised = true
	w.hide()
	output.Say("others wait for %q too, and whoever asks first gets it; with --fair nobody who comes later does", last.Resource)
	w.last.CompareAndSwap(nil, last)
}

// draw draws the line, in its turn among the lines of package output. What the line shows
// is read only then, so one drawing that waits is enough.
func (w *waitLine) draw() {
	if w.terminal != nil && !w.waiting.Swap(true) {
		output.Draw(w.drawNow)
	}
}

// drawNow draws the line. In the background it does nothing: the terminal then belongs
// to another job.
func (w *waitLine) drawNow() {
	w.waiting.Store(false)
	last := w.last.Load()
	if last == nil && !w.drawn || !output.MayDraw(w.terminal) {
		return
	}
	w.drawn = last != nil
	text := ""
	if last != nil {
		columns, _ := output.Size(w.terminal)
		text = output.Fit("holdfast: "+last.waiting(time.Now()), columns)
	}
	fmt.Fprint(w.terminal, "\r", text, output.EraseLine)
}
