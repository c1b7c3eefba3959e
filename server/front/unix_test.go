//go:build linux || darwin || freebsd

package front

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

// socketIn returns a path in a folder of its own, short enough for all systems.
func socketIn(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hf") //nolint:usetesting // the folder of a test has too long a path on macOS
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "holdfast", "sock")
}

func TestUnix(t *testing.T) {
	path := socketIn(t)
	l, err := ListenUnix(path)
	check(t, err)
	auth, tokens := newAuth(t, "a")
	serve(t, l, newFront(t, whoami, &Options{Identify: auth.Identify}))
	c := client(t, dialSocket(path))
	operator := fmt.Sprintf("operator from unix:%d", os.Geteuid())
	for name, want := range map[string]struct {
		headers []string
		kind    wire.Kind
	}{
		"the user":         {nil, ""},
		"with a token":     {[]string{"Authorization: Bearer " + tokens["a"]}, ""},
		"a wrong token":    {[]string{"Authorization: Bearer x"}, ""},
		"another name":     {[]string{"Host: evil.example.com"}, wire.KindMisdirected},
		"by a proxy":       {[]string{"X-Forwarded-For: 192.0.2.1"}, wire.KindDenied},
		"a foreign origin": {[]string{"Origin: https://evil.example.com"}, wire.KindDenied},
	} {
		got := send(t, c, "GET", "http://localhost/v1/holds", "", want.headers...)
		if got.kind != want.kind || want.kind == "" && got.body != operator {
			t.Errorf("%s: %d, %q: %s", name, got.status, got.kind, got.body)
		}
	}
	for _, file := range []string{path, filepath.Dir(path)} {
		info, err := os.Stat(file)
		check(t, err)
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has the mode %04o", file, info.Mode().Perm())
		}
	}
}

// A server without ConnContext takes nobody for the operator.
func TestUnixWithoutConnContext(t *testing.T) {
	path := socketIn(t)
	l, err := ListenUnix(path)
	check(t, err)
	s := Server(newFront(t, whoami, nil), nil)
	s.ConnContext = nil
	run(t, s, func() error { return s.Serve(l) })
	if got := send(t, client(t, dialSocket(path)), "GET", "http://localhost/v1/holds", ""); got.kind != wire.KindAnonymous {
		t.Errorf("%d: %s", got.status, got.body)
	}
}

func TestListenUnix(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(path string) error
		wrong   string
	}{
		"nothing there": {func(string) error { return nil }, ""},
		"a folder":      {func(path string) error { return os.Mkdir(filepath.Dir(path), 0o700) }, ""},
		"the socket of a dead server": {func(path string) error {
			l, err := ListenUnix(path)
			if err != nil {
				return err
			}
			l.(*unixListener).SetUnlinkOnClose(false)
			return l.Close()
		}, ""},
		"the socket of a server that lives": {func(path string) error {
			l, err := ListenUnix(path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}, "another server"},
		"the socket of another program that lives": {func(path string) error {
			if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
				return err
			}
			l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
			if err == nil {
				t.Cleanup(func() { _ = l.Close() })
			}
			return err
		}, "another server"},
		"a file": {func(path string) error {
			return errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("precious"), 0o600))
		}, "not a socket"},
		"a link": {func(path string) error {
			return errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Symlink("/dev/null", path))
		}, "not a socket"},
		"a link for the lock": {func(path string) error {
			return errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Symlink("/dev/null", path+".lock"))
		}, "sock.lock"},
		"a folder that others can enter": {func(path string) error {
			return errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Chmod(filepath.Dir(path), 0o750))
		}, "0700"},
		"a folder of somebody else": {func(path string) error {
			return errors.Join(os.Mkdir(filepath.Dir(path), 0o700), os.Chown(filepath.Dir(path), 65534, 65534))
		}, "belongs to user 65534"},
		"a file for the folder": {func(path string) error {
			return os.WriteFile(filepath.Dir(path), nil, 0o600)
		}, "not a folder"},
		"no folder above": {func(path string) error { return os.Remove(filepath.Dir(filepath.Dir(path))) }, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 && name == "a folder of somebody else" {
				t.Skip("only root can give a folder away")
			}
			path := socketIn(t)
			check(t, c.prepare(path))
			l, err := ListenUnix(path)
			if err == nil {
				defer l.Close()
			}
			if c.wrong == "" {
				check(t, err)
				check(t, errors.Join(l.Close(), l.Close()))
				if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("the socket stays: %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.wrong) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %v, want one with %q", err, c.wrong)
			}
			if text, err := os.ReadFile(path); name == "a file" && (err != nil || string(text) != "precious") {
				t.Errorf("the file is now %q: %v", text, err)
			}
		})
	}
	if l, err := ListenUnix(filepath.Join(filepath.Dir(socketIn(t)), strings.Repeat("a", 200))); err == nil {
		_ = l.Close()
		t.Error("a path of 200 bytes is accepted")
	} else if !strings.Contains(err.Error(), "100 bytes") {
		t.Errorf("error %v", err)
	}
}
