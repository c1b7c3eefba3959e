package mongodoc_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// Each operation takes one command, and a second one only if the first found less than
// was requested.
func TestCommandsPerOperation(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll, commands := sent.Through(t, newCollection(t))
		s := start(t, l.open(coll))
		end := "update"
		if l.name == "TTL" {
			end = "delete"
		}
		var ref driver.HoldRef
		commands.Want(t, "acquire of a new resource", []string{"findAndModify"}, func() { ref = ask.Granted(t, s, ask.Request("r", "a")) })
		commands.Want(t, "refusal", []string{"findAndModify"}, func() { _ = ask.Refused(t, s, ask.Request("r", "b")) })
		commands.Want(t, "release", []string{end}, func() { ask.Released(t, s, ref, 0) })
		commands.Want(t, "release of nothing", []string{end, "find"}, func() { ask.Released(t, s, ref, 0) })
		var renewals []driver.RenewRequest
		for i := range 500 {
			ref := ask.Granted(t, s, ask.Request(fmt.Sprint("job ", i), "a"))
			renewals = append(renewals, driver.RenewRequest{HoldRef: ref, TTL: driver.Forever})
		}
		commands.Want(t, "500 renewals", []string{"update"}, func() {
			if _, err := s.Renew(t.Context(), renewals); err != nil {
				t.Error(err)
			}
		})
	})
}

// Impossible requests are refused before anything is sent.
func TestRefusedBeforeItIsSent(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll, commands := sent.Through(t, newCollection(t))
		s := l.open(coll)
		if _, err := s.Acquire(t.Context(), ask.Request("r", "a")); !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "Init") {
			t.Errorf("acquire before Init: %v", err)
		}
		start(t, s)
		commands.Want(t, "what cannot be", nil, func() {
			shared := ask.Request("r", "a")
			shared.Mode = driver.Shared
			if _, err := s.Acquire(t.Context(), shared); !errors.Is(err, driver.ErrUnsupported) {
				t.Errorf("shared: %v", err)
			}
			if l.name != "value" {
				if _, err := s.Acquire(t.Context(), ask.Request("r", mongodoc.OldLockID)); !errors.Is(err, driver.ErrInvalid) {
					t.Errorf("by the lock ID of old programs: %v", err)
				}
			}
		})
	})
}

func TestTimeouts(t *testing.T) {
	coll := newCollection(t)
	for _, timeout := range []time.Duration{-time.Second, 1 << 62, time.Microsecond} {
		for _, s := range []*mongodoc.Store{
			mongodoc.NewFlag(coll, &mongodoc.FlagOptions{Timeout: timeout}), mongodoc.NewTTL(coll, &mongodoc.TTLOptions{Timeout: timeout}),
		} {
			if err := s.Init(t.Context()); !errors.Is(err, driver.ErrInvalid) {
				t.Errorf("timeout %v: %v", timeout, err)
			}
		}
	}
	if err := mongodoc.NewTTL(coll, &mongodoc.TTLOptions{Timeout: time.Millisecond}).Init(t.Context()); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("part of a second for an index: %v", err)
	}
}
