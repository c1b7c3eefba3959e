package holdfast_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/memlock"
)

// One hold whose release fails or hangs does not delay the many that are released with it.
func TestReleasesShrink(t *testing.T) {
	const holds = 2500
	for way, release := range map[string]func(*testing.T, *holdfast.Client) error{
		"Close":     func(_ *testing.T, c *holdfast.Client) error { return c.Close() },
		"ReleaseID": func(t *testing.T, c *holdfast.Client) error { return second(c.Admin().ReleaseID(t.Context(), "id")) },
	} {
		for name, fault := range map[string]func() drivertest.Fault{
			"fails": func() drivertest.Fault { return drivertest.Fault{LoseRequest: true} },
			"hangs": func() drivertest.Fault { return drivertest.Fault{HoldRequest: make(chan struct{})} },
		} {
			inBubble(t, way+", and one "+name, func(t *testing.T) {
				store := memlock.New(nil)
				f := faulty(t, store, func(c drivertest.Call) drivertest.Fault {
					if c.Op == drivertest.Release && slices.ContainsFunc(c.Refs, func(ref driver.HoldRef) bool { return ref.Resource == "poison" }) {
						return fault()
					}
					return drivertest.Fault{}
				})
				c := unswept(f, nil)
				t.Cleanup(func() { _ = c.Close() })
				for i := range holds {
					lock(t, c, fmt.Sprint(i), &holdfast.LockOptions{LockID: "id"})
					if i == holds/2 {
						lock(t, c, "poison", &holdfast.LockOptions{LockID: "id"})
					}
				}
				began := time.Now()
				if err := release(t, c); err == nil || errors.Is(err, holdfast.ErrLost) {
					t.Errorf("got error %v", err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				if n := len(holdsIn(t, store, "")); n > 16 {
					t.Errorf("%d holds stay", n)
				}
				if n := f.Calls(drivertest.Release); n > 1000 {
					t.Errorf("the store got %d calls", n)
				}
			})
		}
	}
}
