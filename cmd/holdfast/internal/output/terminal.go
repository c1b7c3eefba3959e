package output

import (
	"os"
	"strings"
	"syscall"

	"github.com/clipperhouse/displaywidth"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/server/words"
)

// IsTerminal reports whether the file is a terminal that can be drawn on.
func IsTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// MayDraw reports whether this process may draw on the terminal: it is in the
// foreground, or the terminal is not its controlling one.
func MayDraw(terminal *os.File) bool {
	foreground, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err != nil || foreground == syscall.Getpgrp()
}

// Size returns the columns and lines of the terminal.
func Size(terminal *os.File) (columns, lines int) {
	columns, lines, err := term.GetSize(int(terminal.Fd()))
	if err != nil || columns < 1 || lines < 1 {
		return 80, 24
	}
	return columns, lines
}

// reserve is how many columns stay free at the end of a line: for the ^C that the terminal adds,
// and because some terminals wrap after the last one.
const reserve = 3

// Fit makes the text fit on one line of a terminal with that many columns.
func Fit(text string, columns int) string {
	const tail = "..."
	if columns < reserve+len(tail) {
		return ""
	}
	return displaywidth.TruncateString(words.Printable(secret.Redact(text)), columns-reserve, tail)
}

// Screen is a terminal that shows a few lines, which are drawn anew over those before. It
// changes no mode of the terminal, so that there is nothing to restore.
type Screen struct {
	Terminal *os.File
	drawn    bool
}

// Draw shows the lines that text returns for a size. What the terminal has shown before the
// first of them scrolls up. In the background nothing is drawn.
func (s *Screen) Draw(text func(columns, lines int) []string) error {
	if !MayDraw(s.Terminal) {
		return nil
	}
	columns, height := Size(s.Terminal)
	var b strings.Builder
	if !s.drawn {
		b.WriteString(strings.Repeat("\n", height))
	}
	b.WriteString("\x1b[H")
	for _, line := range text(columns-reserve, height-1) { // the cursor is below them
		b.WriteString(EraseLine + Fit(line, columns) + "\n")
	}
	b.WriteString("\x1b[J") // to the end of the screen
	s.drawn = true
	_, err := s.Terminal.WriteString(b.String())
	return err
}

// EraseLine erases from the cursor to the end of the line.
const EraseLine = "\x1b[K"
