package acquire

import (
	"os"

	"golang.org/x/sys/windows"
)

// mayDraw reports whether the console obeys escape sequences, after it has told
// it to.
func mayDraw(terminal *os.File) bool {
	var mode uint32
	console := windows.Handle(terminal.Fd())
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
