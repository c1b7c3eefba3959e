// Package screen draws on the whole terminal and reads its keys.
package screen

import (
	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/color"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// The styles of text.
var (
	Alarming = tcell.StyleDefault.Foreground(color.Red).Bold(true)
	Strong   = tcell.StyleDefault.Bold(true)
	Marked   = tcell.StyleDefault.Reverse(true)
)

// Use calls use with the whole terminal, and restores the terminal afterwards, even
// after a panic.
func Use(use func(tcell.Screen) error) error {
	s, err := open()
	if err != nil {
		return exit.Errorf(exit.Failed, "the terminal cannot be used: %v. holdfast status needs none", err)
	}
	r := &restarted{s}
	defer func() { r.Fini() }() // of the last screen
	return use(r)
}

// restarted is a screen that is made anew when it is resumed: the library's own does not wait
// for its reader to end.
type restarted struct{ tcell.Screen }

// Suspend gives the terminal back.
func (r *restarted) Suspend() error {
	r.Fini()
	return nil
}

// Resume takes the terminal again.
func (r *restarted) Resume() error {
	s, err := open()
	if err == nil {
		r.Screen = s
	}
	return err
}

// open takes the terminal of the session or, if there is none, as after su -c, the one on
// stdin and stdout. It does not query the terminal: not all terminals answer, and a late
// answer would be typed into the shell.
func open() (tcell.Screen, error) {
	tty, err := tcell.NewDevTty()
	if err != nil {
		tty, err = tcell.NewStdIoTty()
	}
	if err != nil {
		return nil, err
	}
	s, err := tcell.NewTerminfoScreenFromTty(tty, tcell.OptNegotiation(false))
	if err != nil {
		return nil, err
	}
	s.RegisterRuneFallback('…', "~") // for a locale with ASCII only
	return s, s.Init()
}

// Line writes a line.
func Line(s tcell.Screen, y int, text string, style tcell.Style) {
	width, _ := s.Size()
	Text(s, 0, y, width, text, style)
}

// Text writes a text into at most width columns. One that is cut off ends in an
// ellipsis.
func Text(s tcell.Screen, x, y, width int, text string, style tcell.Style) {
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

// Quits handles the keys that are alike on all screens. It suspends the screen if the user
// asks for that, and reports whether the user quits or the terminal is gone.
func Quits(s tcell.Screen, ev tcell.Event) bool {
	switch ev := ev.(type) {
	case *tcell.EventError:
		return true
	case *tcell.EventKey:
		switch {
		case ev.Key() == tcell.KeyCtrlC, ev.Str() == "q":
			return true
		case ev.Key() == tcell.KeyCtrlZ:
			return suspend(s) != nil
		}
	}
	return false
}
