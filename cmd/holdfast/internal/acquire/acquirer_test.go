package acquire

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
)

// queueless is a store that keeps no queue, as those of other lock libraries do.
type queueless struct{ driver.Store }

func (s queueless) Traits() driver.Traits {
	t := s.Store.Traits()
	t.Queue = false
	return t
}

// What takes a queue is refused in a store without one, before anything is acquired.
func TestNeedsQueue(t *testing.T) {
	r := Request{Store: location.Location{URL: "queueless://host"}, Resources: []string{"r"}, forever: true, quiet: true}
	l, err := r.acquire(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
	r.NeedsQueue = "--fair"
	_, err = r.acquire(t.Context(), nil)
	if e, ok := errors.AsType[*exit.Error](err); !ok || e.Status != exit.Usage || !strings.HasPrefix(e.Text, "--fair needs a store that keeps a queue, and queueless://host keeps none") {
		t.Errorf("got error %v", err)
	}
}

// taken is a store where a lock ID has every resource.
type taken struct{ driver.Store }

func (taken) Acquire(_ context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	holder := holdfast.Status{LockID: "mine", Left: time.Hour}
	return driver.Grant{}, &driver.HeldError{Resource: q.Resource, Holders: []holdfast.Status{holder}, RetryAfter: time.Hour, BySelf: q.LockID == "mine"}
}

// Each scheme is that of the store of its name.
func init() {
	for scheme, store := range map[string]func(driver.Store) driver.Store{
		"queueless": func(s driver.Store) driver.Store { return queueless{s} },
		"taken":     func(s driver.Store) driver.Store { return taken{s} },
		"deaf":      func(s driver.Store) driver.Store { return deaf{s} },
		"refusing":  func(s driver.Store) driver.Store { return refusing{s} },
		"failing":   func(s driver.Store) driver.Store { return failing{s, time.Now()} },
	} {
		driver.Register(scheme, func(context.Context, *url.URL) (driver.Store, error) { return store(memlock.New(nil)), nil })
	}
}

// Who asks for a lock that the same lock ID has learns that, however it waits: it may be
// a mistake.
func TestSameLockID(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		for wait, want := range map[time.Duration]string{
			0:                `"r" is held by the same lock ID already; renew or release that hold first`,
			time.Millisecond: `"r" is held by the same lock ID already; gave up after 1ms. Renew or release that hold first`,
			time.Minute:      `"r" is held by the same lock ID already; gave up after 1m0s. Renew or release that hold first`,
		} {
			for id, want := range map[string]string{"mine": want, "other": ""} {
				synctest.Test(t, func(t *testing.T) {
					r := Request{Store: location.Location{URL: "taken://host"}, Resources: []string{"r"}, ConflictExit: exit.NotAcquired, wait: wait, quiet: quiet}
					r.Options.LockID = id
					_, err := r.Await(t.Context(), nil, nil)
					e, ok := errors.AsType[*exit.Error](err)
					if !ok || e.Status != exit.NotAcquired || (id == "mine" || quiet) && e.Text != want || id == "other" && strings.Contains(e.Text, "same lock ID") {
						t.Errorf("quiet %v, --wait %v, lock ID %s: got error %+v, want %q", quiet, wait, id, err, want)
					}
				})
			}
		}
	}
}
