//go:build unix

package adapters_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
)

// variable is the environment variable with the config that makes this test binary a worker.
const variable = "HOLDFAST_TEST_ADAPTER"

// ttl is the TTL of all locks: the lock of a killed worker lasts that long.
const ttl = 2 * time.Second

// config tells a worker what to do.
type config struct {
	Adapter string
	Store   string // the URL
	Data    string // the URL of the data that it works on: a database, a folder
	Witness string // a file that all workers lock
}

// worker is a process that prints a line for each event.
type worker struct {
	config
	client *holdfast.Client
	out    sync.Mutex
}

// The events that a worker prints.
const (
	working = "working" // the work begins
	skipped = "skipped" // another worker has the lock
	lost    = "lost"    // the work ended because its lock was lost
	overlap = "overlap" // two workers work at once
)

// workers are the adapters, each with a program that works until ctx ends.
var workers = map[string]func(ctx context.Context, w *worker) error{
	"gocron locker":  gocronLocker,
	"gocron elector": gocronElector,
	"cron job":       cronJob,
	"asynq":          asynqScheduler,
	"certmagic":      certmagicObtain,
	"goose":          gooseUp,
	"mutex":          mutexLoop,
}

// workerMain runs a worker until its standard input ends, and returns the exit status.
func workerMain() int {
	w := new(worker)
	if err := json.Unmarshal([]byte(os.Getenv(variable)), &w.config); err != nil {
		return w.fail(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	var err error
	if w.client, err = holdfast.Open(ctx, w.Store, &holdfast.Options{TTL: ttl}); err != nil {
		return w.fail(err)
	}
	if err := workers[w.Adapter](ctx, w); err != nil && !errors.Is(err, context.Canceled) {
		return w.fail(err)
	}
	if err := w.client.Close(); err != nil {
		return w.fail(err)
	}
	return 0
}

func (w *worker) fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (w *worker) say(event string) {
	w.out.Lock()
	defer w.out.Unlock()
	fmt.Println(event)
}

// work is the work that only one worker may do at a time. It ends with ctx. A kernel lock on
// the file Witness detects a second worker, and is free again when its process is killed.
func (w *worker) work(ctx context.Context) error {
	witness, err := os.OpenFile(w.Witness, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer witness.Close()
	if err := syscall.Flock(int(witness.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		w.say(overlap)
		return err
	}
	w.say(working)
	<-ctx.Done()
	if err := witness.Close(); err != nil {
		return err
	}
	cause := context.Cause(ctx)
	if errors.Is(cause, holdfast.ErrLost) {
		w.say(lost)
	}
	return cause
}
