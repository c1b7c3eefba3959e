package main

import (
	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

var (
	alarming = tcell.StyleDefault.Foreground(color.Red).Bold(true)
	strong   = tcell.StyleDefault.Bold(true)
	marked   = tcell.StyleDefault.Reverse(true)
)

// onScreen gives use the whole terminal, and gives that back as it was, however
// use ends.
func onScreen(use func(tcell.Screen) error) error {
	s, err := newScreen()
	if err == nil {
		err = s.Init()
	}
	if err != nil {
		return exit.Errorf(exit.Failed, "the terminal cannot be used: %v. holdfast status needs none", err)
	}
	defer s.Fini()
	s.RegisterRuneFallback('…', "~") // in a locale that has only ASCII
	return use(s)
}

// newScreen takes the terminal of the session or, where there is none, as after
// su -c, the one on stdin and stdout. The terminal is asked nothing: not all
// answer, and answers that come after the end would be typed into the shell.
func newScreen() (tcell.Screen, error) {
	quiet := tcell.OptNegotiation(false)
	if tty, err := newDevTty(); err == nil {
		return tcell.NewTerminfoScreenFromTty(tty, quiet)
	}
	tty, err := tcell.NewStdIoTty()
	if err != nil {
		return nil, err
	}
	return tcell.NewTerminfoScreenFromTty(tty, quiet)
}

// put writes a line.
func put(s tcell.Screen, y int, text string, style tcell.Style) {
	width, _ := s.Size()
	putWithin(s, 0, y, width, text, style)
}

// putWithin writes text of so many columns at most. What is cut off ends in an
// ellipsis.
func putWithin(s tcell.Screen, x, y, width int, text string, style tcell.Style) {
	end := x + width
	for text != "" && x < end {
		rest, wide := s.Put(x, y, text, style)
		if wide == 0 {
			return // outside the screen
		}
		if x+wide > end || x+wide == end && rest != "" {
			s.Put(x, y, "…", style)
			for x++; x < end; x++ {
				s.Put(x, y, " ", style)
			}
			return
		}
		x, text = x+wide, rest
	}
}

// command is what a key means everywhere.
type command int

const (
	otherKey command = iota
	quitKey
	suspendKey
)

func commandOf(ev tcell.Event) command {
	switch ev := ev.(type) {
	case *tcell.EventError: // the terminal is gone
		return quitKey
	case *tcell.EventKey:
		switch {
		case ev.Key() == tcell.KeyCtrlC, ev.Str() == "q":
			return quitKey
		case ev.Key() == tcell.KeyCtrlZ:
			return suspendKey
		}
	}
	return otherKey
}
