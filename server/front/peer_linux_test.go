package front

import (
	"context"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// A user who should never have come to the socket is nobody there.
func TestUnixOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be others")
	}
	path := socketIn(t)
	l, err := ListenUnix(path)
	check(t, err)
	serve(t, l, newFront(t, whoami, nil))
	// Somebody opens the folder later, and that above it.
	for _, file := range []string{filepath.Dir(filepath.Dir(path)), filepath.Dir(path), path} {
		check(t, os.Chmod(file, 0o777))
	}
	const nobody = 65534
	c := client(t, func(tr *http.Transport) {
		tr.DialContext = func(ctx context.Context, _, _ string) (c net.Conn, err error) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				runtime.LockOSThread() // and never unlock: the thread ends with its user
				if _, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); errno != 0 {
					err = errno
					return
				}
				c, err = new(net.Dialer).DialContext(ctx, "unix", path)
			}()
			<-done
			return c, err
		}
	})
	got := send(t, c, "GET", "http://localhost/v1/holds", "")
	if got.kind != wire.KindAnonymous || !strings.Contains(got.body, "not for user 65534") {
		t.Errorf("%d: %s", got.status, got.body)
	}
}
