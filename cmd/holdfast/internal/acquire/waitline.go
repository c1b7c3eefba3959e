package acquire

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/words"
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

// refusal is a store's refusal of an acquire, with its time.
type refusal struct {
	*holdfast.HeldError
	at   time.Time
	fair bool // the acquirer is
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
			output.SayEvent("waiting", []slog.Attr{slog.String("resource", last.Resource)}, "%s", last.text(time.Now()))
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

// eraseLine erases from the cursor to the end of the line.
const eraseLine = "\x1b[K"

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
	if last == nil && !w.drawn || !mayDraw(w.terminal) {
		return
	}
	w.drawn = last != nil
	text := ""
	if last != nil {
		text = fit("holdfast: "+last.text(time.Now()), w.columns())
	}
	fmt.Fprint(w.terminal, "\r", text, eraseLine)
}

func (w *waitLine) columns() int {
	columns, _, err := term.GetSize(int(w.terminal.Fd()))
	if err != nil || columns < 1 {
		return 80
	}
	return columns
}

// fit makes the text fit on one line of a terminal with that many columns. The last
// columns stay free: for the ^C that the terminal adds, and because some terminals
// wrap after the last one.
func fit(text string, columns int) string {
	const reserve, tail = 3, "..."
	if columns < reserve+len(tail) {
		return ""
	}
	return displaywidth.TruncateString(words.Printable(secret.Redact(text)), columns-reserve, tail)
}

// text returns the position in the queue, the holder of the lock, for how long by now, how
// much time is left and why. The most important comes first, because the end may be cut off.
func (r *refusal) text(now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting for %q%s", r.Resource, r.position())
	if len(r.Holders) == 0 {
		if len(r.Ahead) > 0 {
			b.WriteString(", free for " + output.Waiter(r.Ahead[0]))
		}
		return b.String()
	}
	h := firstHolder(r.HeldError)
	kept, rest := ", held by ", r.rest(h, now)
	switch {
	case strings.HasPrefix(rest, gone):
		kept = ", was held by "
	case r.OnlyAhead():
		kept = ", first in line " + output.Waiter(r.Ahead[0]) + ", shared by "
	}
	b.WriteString(kept + output.Holder(h) + more(len(r.Holders)-1))
	if r.BySelf { // as the store reports it, so that a caller who waits for its own hold notices
		b.WriteString(" with the same lock ID,")
	}
	switch age := h.Age(); {
	case age != driver.Unknown: // shorter than a date, and by one clock
		b.WriteString(" for " + output.Left((age + now.Sub(r.at)).Truncate(time.Second)))
	case !h.Created.IsZero():
		b.WriteString(" " + output.Since(h.Created, age))
	}
	b.WriteString(", " + rest)
	if h.Comment != "" {
		fmt.Fprintf(&b, " (%s)", h.Comment)
	}
	return b.String()
}

// position returns where in the queue the acquirer is. Only a fair one has a position:
// others may overtake, and be overtaken.
func (r *refusal) position() string {
	switch ahead, exact := before(r.HeldError); {
	case r.Position == driver.NoPlace && r.Waiters >= driver.MaxPlaces: // it has no place among them
		return fmt.Sprintf(", beside %d", r.Waiters)
	case r.fair && r.Position != driver.NoPlace:
		return fmt.Sprintf(", position %d of %d", r.Position+1, r.Waiters)
	case !exact:
		return fmt.Sprintf(", behind %d or more", ahead)
	case ahead > 0:
		return fmt.Sprintf(", behind %d", ahead)
	case r.Position == driver.NoPlace && r.Waiters > 0:
		return fmt.Sprintf(", beside %d", r.Waiters)
	case r.Waiters > 1:
		return fmt.Sprintf(", beside %d", r.Waiters-1)
	}
	return ""
}

// gone begins the rest of a hold with which its holder is done.
const gone = "ended, "

// rest returns how much time the hold has left.
func (r *refusal) rest(h holdfast.Status, now time.Time) string {
	passed := now.Sub(r.at)
	if h.Left != driver.Unknown && h.Left <= passed && h.TakeoverDelay > 0 && !h.Released &&
		r.RetryAfter != holdfast.Forever && r.RetryAfter > passed {
		return gone + "to be taken over in " + output.Left((r.RetryAfter - passed).Truncate(time.Second))
	}
	rest := h.Left
	if rest != driver.Unknown && rest != holdfast.Forever {
		rest = max(rest-passed, 0).Truncate(time.Second)
	}
	if h.Released {
		return gone + "kept for " + output.Left(rest) + " by --at-least"
	}
	text := output.Left(rest) + " left"
	if rest == holdfast.Forever {
		text = "without an end"
	}
	if renewed(h) {
		text += ", renewed by its holder"
	}
	return text
}

// endlessGrace is how long after its grant a hold gets to be one without an end, even in a
// store that is slow: by a first renewal, which says nothing of its holder.
const endlessGrace = 10 * time.Second

// renewed reports whether the holder has renewed the hold since it got it.
func renewed(h holdfast.Status) bool {
	began := h.Created
	if h.Left == holdfast.Forever {
		began = began.Add(endlessGrace)
	}
	return !h.Renewed.IsZero() && h.Renewed.After(began)
}
