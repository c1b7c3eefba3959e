//go:build !unix

package main

import "github.com/gdamore/tcell/v3"

// suspend does nothing: there are no jobs to be stopped.
func suspend(tcell.Screen) {}
