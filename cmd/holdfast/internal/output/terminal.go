package output

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal reports that the file is a terminal on which a screen can be drawn.
func IsTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
