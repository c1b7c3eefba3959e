package acquire

import (
	"os"

	"golang.org/x/sys/windows"
)

// mayDraw makes the console obey escape sequences, and reports whether it does.
func mayDraw(terminal *os.File) bool {
	var mode uint32
	console := windows.Handle(terminal.Fd())
	if err := windows.GetConsoleMode(console, &mode); err != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
