package main

import (
	"context"
	"os"
	"time"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"
	"golang.org/x/term"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
)

var (
	alarming = tcell.StyleDefault.Foreground(color.Red).Bold(true)
	strong   = tcell.StyleDefault.Bold(true)
	marked   = tcell.StyleDefault.Reverse(true)
)

// isTerminal reports that the file is a terminal on which a screen can be drawn.
func isTerminal(f *os.File) bool {
	return term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// onScreen gives use the whole terminal, and gives that back as it was, however
// use ends.
func onScreen(use func(tcell.Screen) error) error {
	s, err := newScreen()
	if err == nil {
		err = s.Init()
	}
	if err != nil {
		return exitf(statusFailed, "the terminal cannot be used: %v. holdfast status needs none", err)
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

// untilInterrupted ends ctx when the user or the system wants the program to end.
// A second signal then ends it by force.
func untilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	received, stop := process.Ends()
	go func() {
		select {
		case <-received:
			cancel()
		case <-ctx.Done():
		}
		stop()
	}()
	return ctx, cancel
}

// drained waits for the end of a watch that was cancelled, but not for a store
// that does not return.
func drained(sights <-chan sight) {
	soon := time.After(time.Second)
	for {
		select {
		case _, ok := <-sights:
			if !ok {
				return
			}
		case <-soon:
			return
		}
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
