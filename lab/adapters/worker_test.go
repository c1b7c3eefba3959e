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

// variable makes this test binary a worker. It has the config.
const variable = "HOLDFAST_TEST_ADAPTER"

// ttl is that of all locks: a killed worker keeps its lock for that long.
const ttl = 2 * time.Second

// config is what a worker does.
type config struct {
	Adapter string
	Store   string // the URL
	Data    string // the URL of what it works on: a database, a folder
	Witness string // a file of all workers
}

// worker is a process of its own. Of each event it prints a line.
type worker struct {
	config
	client *holdfast.Client
	out    sync.Mutex
}

// The events.
const (
	working = "working" // the work begins
	skipped = "skipped" // another worker has it
	lost    = "lost"    // the work ended because its lock was lost
	overlap = "overlap" // two work at once
)

// workers are the adapters, each with a program that does its work until ctx ends.
var workers = map[string]func(ctx context.Context, w *worker) error{
	"gocron locker":  gocronLocker,
	"gocron elector": gocronElector,
	"cron job":       cronJob,
	"asynq":          asynqScheduler,
	"certmagic":      certmagicObtain,
	"goose":          gooseUp,
	"mutex":          mutexLoop,
}

// workerMain works until the standard input ends.
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

// work is what one worker at a time does, until ctx ends. The kernel's lock of a file
// shows that none works beside it, and ends with a process that is killed.
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
