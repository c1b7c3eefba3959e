//go:build !unix

package screen

import "github.com/gdamore/tcell/v3"

// Suspend does nothing: there is no job control.
func Suspend(tcell.Screen) {}
