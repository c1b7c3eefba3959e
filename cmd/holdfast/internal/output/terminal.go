package output

import (
	"os"

	"golang.org/x/term"
)

// IsTerminal reports whether the file is a terminal that can be drawn on.
func IsTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}
