package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// workerVariable is the environment variable that makes this program a worker, a further
// process of a measurement.
const workerVariable = "HOLDFAST_BENCH_WORKER"

// peer is the other end of a pipe between a measurement and its worker. They exchange JSON
// values.
type peer struct {
	in  *json.Decoder
	out *json.Encoder
}

func (p *peer) send(v any) error { return p.out.Encode(v) }

// receive returns io.EOF when the other end is done.
func (p *peer) receive(v any) error { return p.in.Decode(v) }

// worker is a worker process.
type worker struct {
	peer
	cmd   *exec.Cmd
	stdin io.Closer
}

// startWorker starts this program again. Call stop at the end.
func startWorker(ctx context.Context, name string) *worker {
	self := must(os.Executable())
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), workerVariable+"="+name)
	cmd.Stderr = os.Stderr
	stdin := must(cmd.StdinPipe())
	stdout := must(cmd.StdoutPipe())
	check(cmd.Start())
	return &worker{
		peer: peer{in: json.NewDecoder(stdout), out: json.NewEncoder(stdin)},
		cmd:  cmd, stdin: stdin,
	}
}

// stop tells the worker to end, and waits for it.
func (w *worker) stop() error {
	return errors.Join(w.stdin.Close(), w.cmd.Wait())
}

// work runs a worker.
func work(ctx context.Context, name string) (err error) {
	do, ok := workers[name]
	if !ok {
		return fmt.Errorf("no worker has that name")
	}
	defer func() {
		if err = failedBy(recover()); errors.Is(err, io.EOF) {
			err = nil // it is done
		}
	}()
	do(ctx, &peer{in: json.NewDecoder(os.Stdin), out: json.NewEncoder(os.Stdout)})
	return nil
}
