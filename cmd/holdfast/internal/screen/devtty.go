package screen

import (
	"sync"

	"github.com/gdamore/tcell/v3"
)

// devTty is the terminal of the session. It is opened again each time the screen is
// started: the library's own changes under a reader that is still about to end when
// a suspended screen is resumed.
type devTty struct {
	mu      sync.Mutex
	current tcell.Tty
	started bool
}

func newDevTty() (*devTty, error) {
	tty, err := tcell.NewDevTty()
	return &devTty{current: tty}, err
}

func (d *devTty) tty() tcell.Tty {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// Start takes the terminal, unless it is taken already.
func (d *devTty) Start() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.started {
		return nil
	}
	tty, err := tcell.NewDevTty()
	if err != nil {
		return err
	}
	d.current = tty
	err = tty.Start()
	d.started = err == nil
	return err
}

// Stop gives the terminal back as it was.
func (d *devTty) Stop() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.started = false
	return d.current.Stop()
}

// Drain makes a waiting Read return.
func (d *devTty) Drain() error { return d.tty().Drain() }

// NotifyResize sends to the channel when the size changes.
func (d *devTty) NotifyResize(resized chan<- bool) { d.tty().NotifyResize(resized) }

// WindowSize is the size of the terminal.
func (d *devTty) WindowSize() (tcell.WindowSize, error) { return d.tty().WindowSize() }

// Read reads what is typed.
func (d *devTty) Read(b []byte) (int, error) { return d.tty().Read(b) }

// Write draws.
func (d *devTty) Write(b []byte) (int, error) { return d.tty().Write(b) }

// Close closes the terminal.
func (d *devTty) Close() error { return d.tty().Close() }
