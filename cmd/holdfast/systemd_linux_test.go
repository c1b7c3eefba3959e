package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What systemd does for a service: it has opened the socket, and is told when the server is
// ready and when it ends.
func TestSystemd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	socket, err := l.(*net.TCPListener).File()
	check(t, err)
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	check(t, err)
	defer manager.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID=$$ exec holdfast serve --store ./locks.db --drain-delay 1ms")
	cmd.Dir, cmd.ExtraFiles = dir, []*os.File{socket}
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1", "LISTEN_FDNAMES=holdfast.socket", "NOTIFY_SOCKET="+manager.LocalAddr().String())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	check(t, cmd.Start())
	url := "http://" + l.Addr().String()
	socket.Close()
	l.Close() // the server has it now
	wantState(t, manager, "READY=1\nSTATUS=serving the locks in locks.db")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/readyz", nil)
	check(t, err)
	answer, err := http.DefaultClient.Do(r)
	check(t, err)
	if answer.Body.Close(); answer.StatusCode != http.StatusOK {
		t.Errorf("it answers %s", answer.Status)
	}
	check(t, cmd.Process.Signal(syscall.SIGTERM))
	wantState(t, manager, "STOPPING=1")
	wantStatus(t, cmd, 0)
	if n := strings.Count(stderr.String(), "listening on "); n != 1 || !strings.Contains(stderr.String(), "listening on "+url+",") {
		t.Errorf("it does not listen on the socket alone:\n%s", stderr.String())
	}
}

// wantState waits for the next message to systemd.
func wantState(t *testing.T, manager *net.UnixConn, want string) {
	t.Helper()
	check(t, manager.SetReadDeadline(time.Now().Add(patience)))
	message := make([]byte, 4096)
	n, err := manager.Read(message)
	check(t, err)
	if got := string(message[:n]); got != want {
		t.Errorf("systemd is told %q, want %q", got, want)
	}
}

// A socket of systemd that other machines reach is refused as an address of the user is.
func TestSystemdSocketForAll(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "0.0.0.0:0")
	check(t, err)
	defer l.Close()
	socket, err := l.(*net.TCPListener).File()
	check(t, err)
	defer socket.Close()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID=$$ exec holdfast serve --store ./locks.db")
	cmd.Dir, cmd.ExtraFiles = t.TempDir(), []*os.File{socket}
	cmd.Env = append(os.Environ(), "LISTEN_FDS=1")
	out, err := cmd.CombinedOutput()
	if status(cmd.ProcessState) != 64 || !strings.Contains(string(out), " is reached from other machines: it needs --tls-cert") {
		t.Errorf("%v: %s", err, out)
	}
}
