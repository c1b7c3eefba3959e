package hosts

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// prefix is the start of the names of all namespaces. The ID of the process that made the
// namespace follows.
const prefix = "holdfast-"

func newNetwork(t testing.TB, names []string) (n *Network, err error) {
	t.Helper()
	if err := sweep(); err != nil {
		return nil, err
	}
	named := func(name string) string { return fmt.Sprintf("%s%d-%s", prefix, os.Getpid(), name) }
	n = &Network{router: named("router"), hosts: make(map[string]*Host)}
	t.Cleanup(func() {
		if err := sweepOf(os.Getpid()); err != nil {
			t.Error(err)
		}
	})
	if err := ip("netns", "add", n.router); err != nil {
		return nil, err
	}
	if err := ip("netns", "exec", n.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"); err != nil {
		return nil, err
	}
	for i, name := range names {
		h := &Host{Address: fmt.Sprintf("10.99.%d.2", i), namespace: named(name), link: fmt.Sprint("to", i)}
		gateway := fmt.Sprintf("10.99.%d.1", i)
		for _, command := range [][]string{
			{"netns", "add", h.namespace},
			{"link", "add", h.link, "netns", n.router, "type", "veth", "peer", "name", "eth0", "netns", h.namespace},
			{"-n", n.router, "addr", "add", gateway + "/30", "dev", h.link},
			{"-n", n.router, "link", "set", h.link, "up"},
			{"-n", h.namespace, "addr", "add", h.Address + "/30", "dev", "eth0"},
			{"-n", h.namespace, "link", "set", "eth0", "up"},
			{"-n", h.namespace, "link", "set", "lo", "up"},
			{"-n", h.namespace, "route", "add", "default", "via", gateway},
		} {
			if err := ip(command...); err != nil {
				return nil, err
			}
		}
		n.hosts[name] = h
	}
	return n, nil
}

// sweep deletes the namespaces of processes that have ended.
func sweep() error {
	return remove(func(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) })
}

// sweepOf deletes the namespaces of a process.
func sweepOf(pid int) error { return remove(func(of int) bool { return of == pid }) }

// remove deletes the namespaces of the processes that of selects.
func remove(of func(pid int) bool) error {
	list, err := run("netns", "list")
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		rest, ours := strings.CutPrefix(name, prefix)
		digits, _, _ := strings.Cut(rest, "-")
		if pid, notOurs := strconv.Atoi(digits); ours && notOurs == nil && of(pid) {
			err = errors.Join(err, ip("netns", "delete", name))
		}
	}
	return err
}

func ip(words ...string) error {
	_, err := run(words...)
	return err
}

// run runs the command ip.
func run(words ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "ip", words...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ip %s: %w: %s", strings.Join(words, " "), err, out)
	}
	return string(out), nil
}

func (h *Host) listen() (l net.Listener, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread stays in the namespace, and ends with this goroutine.
		runtime.LockOSThread()
		l, err = h.listenHere()
	}()
	<-done
	return l, err
}

// listenHere moves this thread to the host, and listens there.
func (h *Host) listenHere() (net.Listener, error) {
	namespace, err := os.Open("/run/netns/" + h.namespace)
	if err != nil {
		return nil, err
	}
	defer namespace.Close()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("setns: %w", err)
	}
	return new(net.ListenConfig).Listen(context.Background(), "tcp", net.JoinHostPort(h.Address, "0"))
}
