package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"go.etcd.io/etcd/server/v3/etcdserver/api/v3lock/v3lockpb"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// etcdPool is the pool size that docs/server-operations.md recommends for a server with many
// callers. Transactions that commit at the same time share a flush; etcd's always do.
const etcdPool = "32"

// measureServeEtcd compares Lock and Unlock on PostgreSQL through a server with etcd's lock
// service: both over their API, on loopback, with each change on the disk.
func measureServeEtcd(ctx context.Context, dir string) []result {
	binary := buildCommand(ctx, dir)
	c := newCertificate(dir)
	e := startEtcd(ctx, dir, c)
	defer finish(e.stop)
	store := servedPostgres(ctx, map[string]string{"pool_max_conns": etcdPool})
	defer finish(store.close)
	s := serveTwice(ctx, binary, dir, store.url, c)
	defer finish(s.stop)
	var all []result
	for _, workers := range serveWorkers {
		var sides [][]func() error
		for i, server := range []*served{s.plain, s.secure} {
			theirs := e.lockers(ctx, workers, e.clients[i])
			sides = append(sides, lockers(ctx, workers, server.callers...), theirs)
		}
		rates := ratesOfSides(serveRounds, serveTurn, sides...)
		row := "PostgreSQL beside etcd, " + workersOf(workers)
		for i, what := range []string{"", " with TLS"} {
			ours, theirs := rates[2*i], rates[2*i+1]
			all = append(all, result{
				What:  fmt.Sprintf("holdfast serve on PostgreSQL, Lock and Unlock per those of etcd%s, %s", what, workersOf(workers)),
				Value: medianRatio(ours, theirs), Figure: true, // see DESIGN.md, Server
				Detail: fmt.Sprintf("median ratio of %d rounds in turns, with medians of %.0f and %.0f pairs per second; both flush to the same disk, pool_max_conns=%s, etcd without users",
					serveRounds, median(ours), median(theirs), etcdPool),
				Points: []results.Point{
					ratePoint("serve", row, "over "+[]*served{s.plain, s.secure}[i].scheme(), ours),
					ratePoint("serve", row, "etcd"+what, theirs),
				},
			})
		}
	}
	noteDropped(ctx, all, s.plain, s.secure)
	return all
}

// etcd is a process of etcd, and its clients. The second one uses TLS.
type etcd struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	clients []*clientv3.Client
}

// startEtcd starts an etcd with an empty folder.
func startEtcd(ctx context.Context, dir string, c *certificate) *etcd {
	binary := filepath.Join(dir, "etcd")
	build := exec.CommandContext(ctx, "go", "build", "-o", binary, "./etcd")
	if out, err := build.CombinedOutput(); err != nil {
		failf("%w\n%s", err, out)
	}
	e := &etcd{cmd: exec.CommandContext(ctx, binary, filepath.Join(dir, "etcd-data"), c.cert, c.key)}
	e.cmd.Stderr = os.Stderr
	e.stdin = must(e.cmd.StdinPipe())
	out := must(e.cmd.StdoutPipe())
	check(e.cmd.Start())
	defer undo(e.stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		failf("etcd did not start: %w", err)
	}
	trusting := c.trusting()
	for u := range strings.FieldsSeq(line) {
		config := clientv3.Config{Endpoints: []string{u}, Logger: zap.NewNop()}
		if strings.HasPrefix(u, "https:") {
			config.TLS = trusting
		}
		client := must(clientv3.New(config))
		e.clients = append(e.clients, client)
	}
	if len(e.clients) != 2 {
		failf("etcd said %q", line)
	}
	return e
}

// etcdLease is the time to live of a worker's lease, in seconds: longer than the measurement.
const etcdLease = 3600

// lockers returns workers that lock and unlock with the lock service. Each has a name and a
// lease of its own.
func (e *etcd) lockers(ctx context.Context, n int, client *clientv3.Client) (all []func() error) {
	service := v3lockpb.NewLockClient(client.ActiveConnection())
	for i := range n {
		lease := must(client.Grant(ctx, etcdLease))
		lock := &v3lockpb.LockRequest{Name: fmt.Appendf(nil, "resource-%d", i), Lease: int64(lease.ID)}
		all = append(all, func() error {
			locked, err := service.Lock(ctx, lock)
			if err != nil {
				return err
			}
			_, err = service.Unlock(ctx, &v3lockpb.UnlockRequest{Key: locked.Key})
			return err
		})
	}
	return all
}

func (e *etcd) stop() error {
	var errs []error
	for _, client := range e.clients {
		errs = append(errs, client.Close())
	}
	return errors.Join(append(errs, e.stdin.Close(), e.cmd.Wait())...)
}
