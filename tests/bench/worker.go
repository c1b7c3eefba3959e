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

// workerVariable makes this program a worker: another process of a measurement.
const workerVariable = "HOLDFAST_BENCH_WORKER"

// peer is the other end of a pipe between a measurement and its worker. They
// speak in JSON values, one after another.
type peer struct {
	in  *json.Decoder
	out *json.Encoder
}

func (p *peer) send(v any) error { return p.out.Encode(v) }

// receive returns io.EOF when the other end is done.
func (p *peer) receive(v any) error { return p.in.Decode(v) }

// worker is a process that was started.
type worker struct {
	peer
	cmd   *exec.Cmd
	stdin io.Closer
}

// startWorker starts this program again. Stop it in the end.
func startWorker(ctx context.Context, name string) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), workerVariable+"="+name)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &worker{
		peer: peer{in: json.NewDecoder(stdout), out: json.NewEncoder(stdin)},
		cmd:  cmd, stdin: stdin,
	}, nil
}

// stop tells the worker that it is done, and waits for it.
func (w *worker) stop() error {
	return errors.Join(w.stdin.Close(), w.cmd.Wait())
}

// stopAll stops workers and adds their errors to *err.
func stopAll(ws []*worker, err *error) {
	for _, w := range ws {
		*err = errors.Join(*err, w.stop())
	}
}

// work is a worker's life.
func work(ctx context.Context, name string) error {
	do, ok := workers[name]
	if !ok {
		return fmt.Errorf("there is none of that name")
	}
	err := do(ctx, &peer{in: json.NewDecoder(os.Stdin), out: json.NewEncoder(os.Stdout)})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
