//go:build linux

// Command peers measures holdfast run, other programs that run a command under a lock, and
// programs that do a part of its work, in turns. It saves the results for docs/figures.md:
//
//	cd lab/bench && GOWORK=off go run ./peers -keep ../../docs/dev/performance-run.json
//
// It measures the programs that it finds in PATH: flock, and etcd with etcdctl. It starts etcd
// itself, on the loopback interface.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

func main() {
	keep := flag.String("keep", "", "write the results as JSON to this `file`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *keep)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep string) error {
	dir, err := os.MkdirTemp("", "holdfast-peers-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Orphaned processes of a program become children of this process, which waits for them:
	// the times below include all processes.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return err
	}
	holdfast := filepath.Join(dir, "holdfast")
	build := exec.CommandContext(ctx, "go", "build", "-C", "../../cmd/holdfast", "-trimpath",
		"-gcflags=go.mongodb.org/mongo-driver/...=-l", "-ldflags=-s -w", "-o", holdfast, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	if err := os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state")); err != nil {
		return err
	}

	peers := []*peer{
		{name: "holdfast, SQLite", args: []string{holdfast, "run", "--store", "local", "peers", "--"}},
		{name: "flock", args: []string{"flock", filepath.Join(dir, "flock")}},
	}
	if _, err := exec.LookPath("etcd"); err != nil && keep != "" {
		return fmt.Errorf("the page needs etcd's figures: %w", err)
	} else if err == nil {
		endpoint, end, err := startEtcd(ctx, dir)
		if err != nil {
			return err
		}
		defer end()
		peers = append(peers, &peer{name: "etcdctl", args: []string{"etcdctl", "--endpoints", endpoint, "lock", "peers", "--"}})
	}
	beside, err := parts(ctx, dir, holdfast)
	if err != nil {
		return err
	}
	const rounds = 50
	for range rounds {
		for _, p := range beside {
			if err := p.once(ctx); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		for _, p := range peers {
			if err := p.once(ctx, "true"); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	for _, p := range peers {
		if err := p.hold(ctx); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}

	report := results.NewReport()
	for _, p := range append(beside, peers...) {
		report.Results = append(report.Results, p.results(rounds)...)
	}
	fmt.Print(report.Table())
	if keep == "" {
		return nil
	}
	return results.Keep(keep, report)
}

// startEtcd starts a server with its data in the folder, and returns its endpoint.
func startEtcd(ctx context.Context, dir string) (endpoint string, end func(), err error) {
	var ports [2]string
	for i := range ports {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return "", nil, err
		}
		defer l.Close() // as late as possible, so that the two ports differ
		ports[i] = "http://" + l.Addr().String()
		_ = l.Close()
	}
	etcd := exec.CommandContext(ctx, "etcd", "--data-dir", filepath.Join(dir, "etcd"), "--logger", "zap", "--log-level", "error",
		"--listen-client-urls", ports[0], "--advertise-client-urls", ports[0],
		"--listen-peer-urls", ports[1], "--initial-advertise-peer-urls", ports[1], "--initial-cluster", "default="+ports[1])
	etcd.Stderr = os.Stderr
	if err := etcd.Start(); err != nil {
		return "", nil, err
	}
	end = func() {
		_ = etcd.Process.Kill()
		_ = etcd.Wait()
	}
	for range 100 {
		if err = exec.CommandContext(ctx, "etcdctl", "--endpoints", ports[0], "endpoint", "health").Run(); err == nil {
			return ports[0], end, nil
		}
	}
	end()
	return "", nil, fmt.Errorf("etcd does not answer: %w", err)
}
