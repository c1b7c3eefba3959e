//go:build unix

package adapters_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
)

// uploads is a handler.Locker of tusd.
type uploads struct{ client *holdfast.Client }

// NewLock returns the handler.Lock of an upload.
func (u uploads) NewLock(id string) (*upload, error) {
	return &upload{client: u.client, resource: "uploads/" + id}, nil
}

type upload struct {
	client   *holdfast.Client
	resource string
	hold     *holdfast.Hold
}

// Lock calls requestUnlock when another request wants the upload, within a third of the
// TTL, and when the lock is lost.
func (u *upload) Lock(ctx context.Context, requestUnlock func()) error {
	// With Fair, the holder learns of a waiter at once, and not after a second.
	hold, err := u.client.Lock(ctx, u.resource, &holdfast.LockOptions{Fair: true, TTL: 3 * time.Second})
	if err != nil {
		return err // handler.ErrLockTimeout, if it is holdfast.ErrHeld
	}
	u.hold = hold
	ended := hold.Context()
	go func() {
		select {
		case <-hold.Wanted():
			requestUnlock()
		case <-ended.Done():
			if !errors.Is(context.Cause(ended), holdfast.ErrReleased) {
				requestUnlock()
			}
		}
	}()
	return nil
}

// Unlock releases the upload.
func (u *upload) Unlock() error { return u.hold.Unlock(context.Background()) }

// tusdLock is tusd's handler.Lock.
type tusdLock interface {
	Lock(ctx context.Context, requestUnlock func()) error
	Unlock() error
}

func TestTusd(t *testing.T) {
	url := local(t)
	var locks []tusdLock
	for range 2 {
		l, err := uploads{open(t, url)}.NewLock("a")
		wantError(t, err, nil)
		locks = append(locks, l)
	}
	stop := make(chan struct{}, 1)
	wantError(t, locks[0].Lock(t.Context(), func() { stop <- struct{}{} }), nil)
	granted := make(chan error)
	go func() { granted <- locks[1].Lock(t.Context(), func() { stop <- struct{}{} }) }()
	<-stop // the request that holds the upload ends
	wantError(t, locks[0].Unlock(), nil)
	wantError(t, <-granted, nil)
	seize(t.Context(), t, open(t, url), "uploads/a")
	<-stop
	wantError(t, locks[1].Unlock(), holdfast.ErrLost)
}
