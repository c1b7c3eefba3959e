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
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/leaktest"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// childEnv selects what the test binary does when it is started as a child: one of
// children. Its stdin and stdout are lines to and from the test.
const childEnv = "SQLITELOCK_CHILD"

var children = map[string]func(args []string, in *bufio.Scanner, out io.Writer) error{
	"open":    childOpen,
	"lock":    childLock,
	"release": childRelease,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := children[role](os.Args[1:], bufio.NewScanner(os.Stdin), os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leaktest.Main(m)
}

// child is a process of this test binary.
type child struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func start(t *testing.T, role string, args ...string) *child {
	t.Helper()
	return startCommand(t, exec.CommandContext(t.Context(), os.Args[0], args...), role)
}

func startCommand(t *testing.T, cmd *exec.Cmd, role string) *child {
	t.Helper()
	cmd.Env = append(os.Environ(), childEnv+"="+role)
	cmd.Stderr = os.Stderr
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return &child{t: t, cmd: cmd, in: in, out: bufio.NewScanner(out)}
}

func (c *child) say(line string) {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.t.Fatal(err)
	}
}

func (c *child) hear(want string) {
	c.t.Helper()
	if !c.out.Scan() || c.out.Text() != want {
		c.t.Fatalf("the child said %q, want %q", c.out.Text(), want)
	}
}

func (c *child) end() {
	c.t.Helper()
	_ = c.in.Close()
	if err := c.cmd.Wait(); err != nil {
		c.t.Fatalf("child: %v", err)
	}
}

// newFile returns the path of a file that does not exist yet.
func newFile(t testing.TB) string {
	return filepath.Join(t.TempDir(), "locks.db")
}

func open(t testing.TB, path string) driver.Store {
	t.Helper()
	return openOn(t, path, nil, sqlitelock.Machine{})
}

// openBackend opens the backend of a store. The caller closes it.
func openBackend(t testing.TB, path string, m sqlitelock.Machine) *sqlitelock.Backend {
	t.Helper()
	b, err := sqlitelock.OpenBackend(t.Context(), path, nil, m)
	check(t, err)
	return b
}

func openOn(t testing.TB, path string, opts *sqlitelock.Options, m sqlitelock.Machine) driver.Store {
	t.Helper()
	s, err := sqlitelock.OpenOn(t.Context(), path, opts, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func request(resource, lockID string, ttl time.Duration) driver.AcquireRequest {
	return driver.AcquireRequest{Resource: resource, LockID: lockID, HoldID: driver.NewHoldID(), TTL: ttl}
}

func acquire(ctx context.Context, s driver.Store, q driver.AcquireRequest) (driver.HoldRef, error) {
	g, err := s.Acquire(ctx, q)
	return driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token}, err
}

func mustAcquire(t testing.TB, s driver.Store, resource, lockID string, ttl time.Duration) driver.HoldRef {
	t.Helper()
	ref, err := acquire(t.Context(), s, request(resource, lockID, ttl))
	if err != nil {
		t.Fatalf("acquire: %v", err)
	}
	return ref
}

func release(ctx context.Context, s driver.Store, ref driver.HoldRef) error {
	rs, err := s.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref}})
	if err != nil {
		return err
	}
	return rs[0].Err
}

func mustRelease(t testing.TB, s driver.Store, ref driver.HoldRef) {
	t.Helper()
	if err := release(t.Context(), s, ref); err != nil {
		t.Fatalf("release: %v", err)
	}
}

// childOpen opens the file on command, acquires and releases the lock of all children, and
// prints the token.
func childOpen(args []string, in *bufio.Scanner, out io.Writer) error {
	fmt.Fprintln(out, "ready")
	in.Scan()
	ctx := context.Background()
	s, err := sqlitelock.Open(ctx, args[0], nil)
	if err != nil {
		return err
	}
	lockID := fmt.Sprint("process ", os.Getpid())
	for {
		ref, err := acquire(ctx, s, request("start", lockID, time.Minute))
		if err == nil {
			fmt.Fprintln(out, ref.Token)
			return errors.Join(release(ctx, s, ref), s.Close())
		}
		if !errors.Is(err, driver.ErrHeld) {
			return err
		}
	}
}

// childLock takes SQLite's write lock on the file until its stdin ends.
func childLock(args []string, in *bufio.Scanner, out io.Writer) error {
	db, err := rawOpen(args[0])
	if err != nil {
		return err
	}
	if _, err := db.ExecContext(context.Background(), "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	fmt.Fprintln(out, "locked")
	in.Scan()
	return db.Close()
}

// childRelease acquires a hold and releases it, on each command.
func childRelease(args []string, in *bufio.Scanner, out io.Writer) error {
	ctx := context.Background()
	s, err := sqlitelock.Open(ctx, args[0], nil)
	if err != nil {
		return err
	}
	for {
		ref, err := acquire(ctx, s, request("r", "child", time.Hour))
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "held")
		if !in.Scan() {
			return errors.Join(release(ctx, s, ref), s.Close())
		}
		if err := release(ctx, s, ref); err != nil {
			return err
		}
		fmt.Fprintln(out, time.Now().UnixNano())
		in.Scan()
	}
}
