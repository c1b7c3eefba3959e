package sqlitelock

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"testing"
)

// Without $HOME, or if root has another user's $HOME, ~ is the folder in the system's
// database of users. So two ways of starting a program lead to the same file.
func TestHome(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such variable")
	}
	u, err := user.Current()
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		t.Skip("this user has no entry with a home folder:", err)
	}
	want := func(what, folder string) {
		t.Helper()
		if got, err := home(); err != nil || got != folder {
			t.Errorf("%s: %q, %v; want %q", what, got, err, folder)
		}
	}
	mine := t.TempDir()
	t.Setenv("HOME", mine)
	want("HOME", mine)
	t.Setenv("HOME", "relative")
	want("HOME that is relative", u.HomeDir)
	t.Setenv("HOME", "")
	want("no HOME", u.HomeDir)
	if os.Geteuid() != 0 {
		t.Skip("the rest needs root")
	}
	if err := os.Chown(mine, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", mine)
	want("HOME of another user", u.HomeDir)
}
