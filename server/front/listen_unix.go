//go:build linux || darwin || freebsd

package front

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// ListenUnix listens on a Unix socket in a folder that only the server's user can enter. It
// makes the folder if it is missing, but none above it. A socket that a dead server left is
// replaced: a file beside it, PATH.lock, is locked while a server lives, and stays. It
// removes the socket at the end.
func ListenUnix(path string) (net.Listener, error) {
	l, err := listenUnix(path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l, nil
}

func listenUnix(path string) (net.Listener, error) {
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l, err := listenLocked(path, lock)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	return &unixListener{UnixListener: l, lock: lock}, nil
}

func listenLocked(path string, lock *os.File) (*net.UnixListener, error) {
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errInUse
		}
		return nil, fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if err := removeStale(path); err != nil {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		if errors.Is(err, syscall.EINVAL) {
			return nil, fmt.Errorf("%w: systems allow a path of about 100 bytes, this has %d", err, len(path))
		}
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

var errInUse = errors.New("another server listens there")

// removeStale removes a socket on which nobody listens, of a server without a lock too.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is not a socket")
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil { //nolint:noctx // it is a start, and answers at once
		_ = c.Close()
		return errInUse
	} else if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("it cannot be found out whether another server listens there: %w", err)
	}
	return os.Remove(path)
}

// checkFolder makes the folder if it is missing, and refuses one that others can enter.
func checkFolder(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("other users can enter its folder (mode %04o): give it one of its own, with mode 0700", perm)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("its folder belongs to user %d, but the server is user %d", st.Uid, os.Geteuid())
	}
	return nil
}

// unixListener keeps the lock until its socket is removed.
type unixListener struct {
	*net.UnixListener
	lock *os.File
	once sync.Once
	err  error
}

func (l *unixListener) Close() error {
	l.once.Do(func() { l.err = errors.Join(l.UnixListener.Close(), l.lock.Close()) })
	return l.err
}

// peerUID returns the user who connected, as the kernel noted it then.
func peerUID(c *net.UnixConn) (uid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var errUID error
	err = raw.Control(func(fd uintptr) { uid, errUID = uidOf(int(fd)) })
	return uid, errors.Join(err, errUID)
}
