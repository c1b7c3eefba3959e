//go:build !unix

package screen

import "github.com/gdamore/tcell/v3"

// suspend does nothing: there is no job control.
func suspend(tcell.Screen) error { return nil }
