//go:build officialclients

package esclients_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/eslock"
	lock "github.com/holdfast-go/holdfast/eslock/compat/es-distributed-lock"
	"github.com/holdfast-go/holdfast/lab/esnode"
)

// The drop-in for es-distributed-lock works with each client too.
func TestDropIn(t *testing.T) {
	esnode.OnBoth(t, func(t *testing.T, n esnode.Node) {
		for name, o := range officials {
			if o.refuses(n.Engine) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				n := esnode.New(t, n.Engine)
				useDropIn(t, o.at(t, n.Base.String(), n.InIndex(n.Index(t))))
			})
		}
	})
}

// useDropIn calls the functions that programs with es-distributed-lock call.
func useDropIn(t *testing.T, client eslock.Performer) {
	t.Helper()
	l := lock.NewLock(client, "a/b c").WithOwner("me")
	for range 2 {
		if err := l.Acquire(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.KeepAlive(t.Context(), time.Minute); err != nil || !l.IsAcquired() {
		t.Errorf("kept alive: %v, error %v", l.IsAcquired(), err)
	}
	if err := lock.NewLock(client, l.ID).Acquire(t.Context(), time.Hour); err == nil || err.Error() != "lock held by other client" {
		t.Errorf("error %v", err)
	}
	if err := l.MustRelease(); err != nil {
		t.Error(err)
	}
}
