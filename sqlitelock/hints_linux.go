package sqlitelock

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// hints tell that some process has written to a file, at no cost while none does.
type hints struct {
	events *os.File // of inotify
}

// newHints collects hints about a file that exists.
func newHints(file string) (*hints, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if _, err := unix.InotifyAddWatch(fd, file, unix.IN_MODIFY); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &hints{events: os.NewFile(uintptr(fd), "inotify")}, nil
}

// take reports whether there was a hint since the last time. Equal events that
// nobody has read are one, so there is never more to read.
func (h *hints) take() (hint bool, err error) {
	raw, err := h.events.SyscallConn()
	if err != nil {
		return false, err
	}
	if err := h.events.SetReadDeadline(time.Time{}); err != nil {
		return false, err
	}
	errRaw := raw.Read(func(fd uintptr) bool {
		var buf [unix.SizeofInotifyEvent]byte
		var n int
		n, err = unix.Read(int(fd), buf[:])
		hint = n > 0
		return true // do not wait
	})
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return hint, errors.Join(err, errRaw)
}

// wait is take that waits for d at most. It returns early when stop has been
// closed and interrupt called.
func (h *hints) wait(d time.Duration, stop <-chan struct{}) (bool, error) {
	if err := h.events.SetReadDeadline(time.Now().Add(d)); err != nil {
		return false, err
	}
	select {
	case <-stop: // perhaps before the deadline was set
		return false, nil
	default:
	}
	var buf [unix.SizeofInotifyEvent]byte
	_, err := h.events.Read(buf[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// interrupt makes a wait return.
func (h *hints) interrupt() error { return h.events.SetReadDeadline(time.Now()) }

func (h *hints) close() error { return h.events.Close() }
