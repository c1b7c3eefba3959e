package history_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
)

// memory is a storage in memory.
type memory struct {
	mu     sync.Mutex
	holds  []history.Hold
	writes int
}

func (m *memory) Load(context.Context) (history.Saved, error) { return history.Saved{}, nil }

func (m *memory) Write(_ context.Context, holds []history.Hold, _ *history.Looks) (history.Bounds, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.holds = append(m.holds, holds...)
	m.writes++
	return history.Bounds{}, nil
}

func (m *memory) Holds(context.Context, history.Query) ([]history.Hold, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.holds, nil
}

func (m *memory) Close() error { return nil }

// broken is a storage that does not answer once it is broken.
type broken struct {
	memory
	mu     sync.Mutex
	broken chan struct{} // closed when it answers again; nil: it answers
	deaf   bool          // it does not even notice that nobody waits any more
	err    error
	asked  atomic.Int64 // how often to write
	closed atomic.Bool
}

func (b *broken) Close() error {
	b.closed.Store(true)
	return b.memory.Close()
}

func (b *broken) breaks() { b.mu.Lock(); b.broken = make(chan struct{}); b.mu.Unlock() }

func (b *broken) heals() { b.mu.Lock(); close(b.broken); b.broken = nil; b.mu.Unlock() }

func (b *broken) wait(ctx context.Context) error {
	b.mu.Lock()
	healed, deaf, err := b.broken, b.deaf, b.err
	b.mu.Unlock()
	if healed == nil {
		return err
	}
	if deaf {
		ctx = context.Background()
	}
	select {
	case <-healed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *broken) Write(ctx context.Context, holds []history.Hold, looks *history.Looks) (history.Bounds, error) {
	b.asked.Add(1)
	if err := b.wait(ctx); err != nil {
		return history.Bounds{}, err
	}
	return b.memory.Write(ctx, holds, looks)
}

func (b *broken) Holds(ctx context.Context, q history.Query) ([]history.Hold, error) {
	if err := b.wait(ctx); err != nil {
		return nil, err
	}
	return b.memory.Holds(ctx, q)
}

// output is where a logger writes to.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func newLog(t *testing.T, s history.Storage) (*history.Log, *output) {
	t.Helper()
	out := new(output)
	log, err := history.New(t.Context(), s, &history.Options{Logger: slog.New(slog.NewTextHandler(out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	return log, out
}

// note notes n grants.
func note(log *history.Log, n int) {
	for range n {
		log.Granted(driver.Status{Resource: "r", HoldID: driver.NewHoldID(), Token: 1}, "ada")
	}
}

// A storage that hangs keeps nobody waiting, and what it misses is counted.
func TestStorageHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(broken)
		log, out := newLog(t, s)
		s.breaks()
		broke := time.Now()
		note(log, 20_000)
		if !time.Now().Equal(broke) {
			t.Errorf("notes took %v", time.Since(broke))
		}
		time.Sleep(time.Minute)
		state := log.State()
		dropped := state.Dropped // 8192 wait in the queue, and those of one batch at most were taken from it
		if dropped > 20_000-8192 || dropped < 20_000-8192-1000 || state.Noted != 0 || !errors.Is(state.Err, history.ErrSlow) || !state.Failing.Equal(broke) {
			t.Errorf("state %+v", state)
		}
		if _, err := log.Holds(t.Context(), history.Query{Resource: "r"}); !errors.Is(err, history.ErrSlow) {
			t.Errorf("read: %v", err)
		}
		for range 10 { // those that hang do not pile up
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := log.Holds(ctx, history.Query{Resource: "r"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			cancel()
		}
		s.heals()
		time.Sleep(time.Minute)
		state = log.State()
		if state.Noted != 20_000-dropped || state.Dropped != dropped || state.Err != nil || !state.Failing.IsZero() {
			t.Errorf("state %+v", state)
		}
		note(log, 1)
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if n := len(s.holds); n != int(20_001-dropped) {
			t.Errorf("%d holds, want %d", n, 20_001-dropped)
		}
		for text, times := range map[string]int{"changes are dropped": 1, "cannot be written": 1, "is written again": 1} {
			if n := strings.Count(out.String(), text); n != times {
				t.Errorf("%q %d times in the log:\n%s", text, n, out)
			}
		}
	})
}

func TestStorageFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(broken)
		log, out := newLog(t, s)
		full := errors.New("the disk is full")
		s.err = full
		for range 10 { // a storage that fails is not asked for each
			time.Sleep(10 * time.Millisecond)
			note(log, 1)
		}
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		if n := s.asked.Load(); n != 1 {
			t.Errorf("asked %d times in a second", n)
		}
		time.Sleep(time.Hour - time.Second)
		if state := log.State(); state.Dropped != 0 || !errors.Is(state.Err, full) || time.Since(state.Failing).Round(time.Second) != time.Hour {
			t.Errorf("state %+v", state)
		}
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		time.Sleep(10 * time.Second)
		if state := log.State(); state.Noted != 10 || state.Dropped != 0 || state.Err != nil {
			t.Errorf("state %+v", state)
		}
		if n := strings.Count(out.String(), "the disk is full"); n != 1 {
			t.Errorf("%d times in the log:\n%s", n, out)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The end of the server waits for a storage that hangs, but not for long.
func TestCloseOfHanging(t *testing.T) {
	for name, deaf := range map[string]bool{"notices": false, "deaf": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &broken{deaf: deaf}
				log, _ := newLog(t, s)
				s.breaks()
				note(log, 100)
				began := time.Now()
				if err := log.Close(); !errors.Is(err, history.ErrSlow) {
					t.Errorf("error %v", err)
				}
				if took := time.Since(began); took > 3*time.Second {
					t.Errorf("it took %v", took)
				}
				if state := log.State(); state.Dropped != 100 {
					t.Errorf("state %+v", state)
				}
				note(log, 1)
				s.heals()
				synctest.Wait()
				if !s.closed.Load() {
					t.Error("the storage is open, although it answers again")
				}
			})
		})
	}
}

// What Holdfast itself locks is nobody's work.
func TestInternalHolds(t *testing.T) {
	s := new(memory)
	log, _ := newLog(t, s)
	for _, name := range []string{driver.SweepResource, "holdfast/check/1", "holdfast", "r"} {
		log.Granted(driver.Status{Resource: name, HoldID: driver.NewHoldID(), Token: 1}, "ada")
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if len(s.holds) != 2 || s.holds[0].Resource != "holdfast" || s.holds[1].Resource != "r" {
		t.Errorf("kept: %+v", s.holds)
	}
}
