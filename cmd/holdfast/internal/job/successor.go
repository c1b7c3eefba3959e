package job

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
	"github.com/holdfast-go/holdfast/driver"
)

// successorArgument makes this program the successor of a run that was killed: it releases its locks.
const successorArgument = "--release-of-killed-run"

// releaseTime is how long the successor tries to release the locks, which end by themselves, too.
const releaseTime = 10 * time.Second

// estate is the input of the successor.
type estate struct {
	URL   string // may contain a password
	Holds []driver.HoldRef
	Until time.Duration // the end of --at-least, on the clock of guard.Now
}

// successor returns what the guard becomes if this process is killed. With a takeover delay that
// is nothing: the delay is for holders that have died.
func (j *Job) successor(held locks, granted time.Duration) (*guard.Successor, error) {
	if j.Options.TakeoverDelay > 0 {
		return nil, nil //nolint:nilnil // no successor is wanted
	}
	e := estate{URL: j.Store.Existing(), Until: granted + j.atLeast}
	for _, h := range held {
		e.Holds = append(e.Holds, driver.HoldRef{Resource: h.Resource(), LockID: h.LockID(), HoldID: h.ID(), Token: h.Token()})
	}
	input, err := json.Marshal(e)
	return &guard.Successor{Args: []string{os.Args[0], successorArgument}, Input: input}, err
}

// IsSuccessor reports whether this program was started as the successor of a run that was killed.
func IsSuccessor(args []string) bool { return len(args) == 2 && args[1] == successorArgument }

// Inherit releases the locks of a run that was killed, which the input describes. There is
// nobody to tell what happens.
func Inherit(input io.Reader) error {
	var e estate
	if err := json.NewDecoder(input).Decode(&e); err != nil {
		return err
	}
	for _, ref := range e.Holds {
		if ref.HoldID.IsZero() { // it would stand for any hold
			return driver.ErrInvalid
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	for pause := 50 * time.Millisecond; ; pause *= 2 {
		// A release may be repeated: another hold has another ID.
		err := e.release(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

// lengthen makes the holds last for the rest of --at-least: a delayed release makes no
// lease longer. What is longer already stays so, and what cannot be renewed ends earlier.
func (e estate) lengthen(ctx context.Context, store driver.Store, rest time.Duration) {
	var qs []driver.RenewRequest
	for _, ref := range e.Holds {
		qs = append(qs, driver.RenewRequest{HoldRef: ref, TTL: max(rest, holdfast.MinTTL)})
	}
	_, _ = store.Renew(ctx, qs)
}

func (e estate) release(ctx context.Context) error {
	store, err := driver.Open(ctx, e.URL)
	if err != nil {
		return err
	}
	defer store.Close()
	rest := max(e.Until-guard.Now(), 0).Truncate(time.Millisecond)
	if rest > 0 {
		e.lengthen(ctx, store, rest)
	}
	var qs []driver.ReleaseRequest
	for _, ref := range e.Holds {
		qs = append(qs, driver.ReleaseRequest{HoldRef: ref, After: rest})
	}
	results, err := store.Release(ctx, qs)
	if err != nil {
		return err
	}
	if len(results) < len(qs) {
		return holdfast.ErrUnreachable // a missing result is unknown
	}
	var errs []error
	for _, r := range results {
		errs = append(errs, r.Err)
	}
	return errors.Join(errs...)
}
