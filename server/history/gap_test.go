package history_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

// keeper is a storage that keeps gaps, unless it fails.
type keeper struct {
	memory
	mu    sync.Mutex
	until time.Time
	gaps  []history.Gap
	err   error
}

// Append says that all is kept.
func (k *keeper) Append(ctx context.Context, events []history.Event) (time.Time, error) {
	_, err := k.memory.Append(ctx, events)
	return time.Unix(0, 0), err
}

func (k *keeper) KeepGaps(_ context.Context, gaps []history.Gap, until time.Time) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.gaps, k.until = gaps, until
	}
	return k.err
}

func (k *keeper) Gaps(context.Context) ([]history.Gap, time.Time, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.gaps, k.until, nil
}

func (k *keeper) fail(err error) { k.mu.Lock(); k.err = err; k.mu.Unlock() }

// A process that was killed has said until when it was there.
func TestGapAfterKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := new(keeper)
		killed, err := history.New(t.Context(), k, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer killed.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		k.fail(errors.New("killed"))
		time.Sleep(3 * time.Minute)
		log, err := history.New(t.Context(), k, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		gaps := log.State().Gaps
		if len(gaps) != 1 || gaps[0].Cause != history.Down || !gaps[0].To.Equal(time.Now()) {
			t.Fatalf("gaps %+v", gaps)
		}
		if d := gaps[0].To.Sub(gaps[0].From); d < 3*time.Minute || d > 3*time.Minute+10*time.Second {
			t.Errorf("it was there for %v less", d)
		}
	})
}

// A storage that fails while nothing happens is known to, and to be well again.
func TestGapsAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := new(keeper)
		log, err := history.New(t.Context(), k, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		k.fail(errors.New("the disk is full"))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if log.State().Err == nil {
			t.Error("nobody knows that it fails")
		}
		k.fail(nil)
		time.Sleep(21 * time.Second)
		synctest.Wait()
		if err := log.State().Err; err != nil {
			t.Errorf("it still fails: %v", err)
		}
	})
}
