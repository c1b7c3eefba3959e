package sqlitelock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// Modes of files other than 0600 must not depend on the umask.
func TestMode(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	for _, mode := range []os.FileMode{0o600, 0o660, 0o666} {
		t.Run(mode.String(), func(t *testing.T) {
			path := newFile(t)
			s := openOn(t, path, &sqlitelock.Options{Mode: mode}, sqlitelock.Machine{})
			mustAcquire(t, s, "r", "a", time.Minute)
			for _, suffix := range []string{"", "-wal", "-shm"} {
				info, err := os.Stat(path + suffix)
				check(t, err)
				if info.Mode() != mode {
					t.Errorf("%s has mode %v", path+suffix, info.Mode())
				}
			}
		})
	}
}

// childShare opens the file for the group. It acquires and releases each lock that its
// stdin names.
func childShare(args []string, in *bufio.Scanner, out io.Writer) error {
	syscall.Umask(0o077)
	ctx := context.Background()
	s, err := sqlitelock.Open(ctx, args[0], &sqlitelock.Options{Mode: 0o660})
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "ready")
	for in.Scan() {
		ref, err := acquire(ctx, s, request(in.Text(), fmt.Sprint(os.Getuid()), time.Hour))
		switch {
		case errors.Is(err, driver.ErrHeld):
			fmt.Fprintln(out, "held")
		case err != nil:
			return err
		default:
			fmt.Fprintln(out, "granted")
			if in.Scan(); in.Text() != "release" {
				return s.Close()
			}
			if err := release(ctx, s, ref); err != nil {
				return err
			}
			fmt.Fprintln(out, "released")
		}
	}
	return s.Close()
}

func init() { children["share"] = childShare }

// Two users of one group, and root, share a file in a folder of the group. Each can be
// the first or the last that has it open.
func TestSharedByUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become other users")
	}
	const group = 64001
	top := t.TempDir()
	dir := filepath.Join(top, "shared")
	// Both folders that TempDir creates are closed to others.
	check(t, errors.Join(os.Chmod(filepath.Dir(top), 0o755), os.Chmod(top, 0o755), os.Mkdir(dir, 0o700),
		os.Chown(dir, 0, group), os.Chmod(dir, 0o770|os.ModeSetgid)))
	path := filepath.Join(dir, "locks.db")
	as := func(uid uint32) *child {
		// The test binary is in a folder that only root may enter.
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", path)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid, Groups: []uint32{group}}}
		c := startCommand(t, cmd, "share")
		c.hear("ready")
		return c
	}
	for _, users := range [][2]uint32{{64002, 64003}, {64003, 64002}, {0, 64002}, {64002, 0}} {
		first := as(users[0])
		first.say("r")
		first.hear("granted")
		second := as(users[1])
		second.say("r")
		second.hear("held")
		first.say("release")
		first.hear("released")
		second.say("r")
		second.hear("granted")
		first.end() // the second is the last
		second.say("release")
		second.hear("released")
		second.end()
	}
	// Other users cannot use it.
	asNobody(t, func() {
		if s, err := sqlitelock.Open(t.Context(), path, nil); err == nil {
			_ = s.Close()
			t.Error("a user outside the group opened the file")
		}
	})
}
