//go:build !unix

package screen

import "github.com/gdamore/tcell/v3"

// Suspend does nothing: there are no jobs to be stopped.
func Suspend(tcell.Screen) {}
