package pglock_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/lab/proxy"
	"github.com/holdfast-go/holdfast/lab/thorough"
	"github.com/holdfast-go/holdfast/pglock"
)

func TestFaults(t *testing.T) {
	thorough.Test(t, "waits for many time-outs")
	d := newDatabase(t)
	faults.Run(t, func(t *testing.T) *faults.Place {
		n, o := proxy.New(t), &pglock.Options{Schema: schema()}
		return &faults.Place{
			Network: n,
			Near:    func(t *testing.T) driver.Store { return pglock.New(d.pool(t), o) },
			Far: func(t *testing.T) driver.Store {
				s := pglock.New(behind(t, d, n), o)
				start(t, s)
				// Connected, with its statements prepared.
				release(t, s, true, ask.Granted(t, s, ask.Request("prepared", "a")))
				return s
			},
		}
	})
}

// release wants that the hold was there, or was not.
func release(t testing.TB, s driver.Store, was bool, ref driver.HoldRef) {
	t.Helper()
	if found := ask.Released(t, s, ref, 0); found != was {
		t.Errorf("release of %q: found %v, want %v", ref.Resource, found, was)
	}
}
