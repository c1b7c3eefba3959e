package acquire

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// deaf is a store that takes requests and never answers.
type deaf struct{ driver.Store }

func (deaf) Acquire(ctx context.Context, _ driver.AcquireRequest) (driver.Grant, error) {
	<-ctx.Done()
	return driver.Grant{}, ctx.Err()
}

func (deaf) Release(ctx context.Context, _ []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that never answers is named on stderr after some seconds, and the try ends in
// the time that is documented: 20 s or --wait, and 5 s to clean up.
func TestStoreThatNeverAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		wait  time.Duration
		quiet bool
		lines string
		says  string
	}{
		"once": {0, false, "has given no answer for 3s. Waiting for 20s at most", "could not be used: no answer within 10s: context deadline exceeded; gave up after 20s. Fix this if it does not pass by itself, or wait for it with --wait"},
		"wait": {15 * time.Second, true, "has given no answer for 3s. Waiting for 15s (--wait) at most", "; gave up after 15s. Fix this if it does not pass by itself, or wait longer with --wait"},
	} {
		t.Run(name, func(t *testing.T) {
			printed := stderr(t)
			synctest.Test(t, func(t *testing.T) {
				r := Request{Store: location.Location{URL: "deaf://host"}, Resources: []string{"r"}, wait: c.wait, quiet: c.quiet}
				began := time.Now()
				_, err := r.Await(t.Context(), nil, nil)
				if e, ok := errors.AsType[*exit.Error](err); !ok || e.Status != exit.Store || !strings.Contains(e.Text, c.says) {
					t.Errorf("got error %v, want %q", err, c.says)
				}
				if took, most := time.Since(began), cmp.Or(c.wait, oncePatience)+5*time.Second; took > most {
					t.Errorf("it took %v, more than %v", took, most)
				}
			})
			if lines := printed(); strings.Count(lines, c.lines) != 1 {
				t.Errorf("stderr has %q, want %q", lines, c.lines)
			}
		})
	}
}

// refusing is a store that answers, and refuses the login. That may pass.
type refusing struct{ driver.Store }

func (refusing) Acquire(context.Context, driver.AcquireRequest) (driver.Grant, error) {
	return driver.Grant{}, errors.New("the server refuses the login")
}

// Whoever waits for a store that cannot be used is told so once, also with --quiet: that
// is an error. What it says is true of a store that has answered, too.
func TestStoreThatRefuses(t *testing.T) {
	const line = "holdfast: the store refusing://host could not be used: the server refuses the login. Trying again until "
	const end = "the store refusing://host could not be used: the server refuses the login; gave up after 30s. " +
		"Fix this if it does not pass by itself, or wait longer with --wait"
	for name, quiet := range map[string]bool{"quiet": true, "not quiet": false} {
		t.Run(name, func(t *testing.T) {
			printed := stderr(t)
			synctest.Test(t, func(t *testing.T) {
				r := Request{Store: location.Location{URL: "refusing://host"}, Resources: []string{"r"}, wait: 30 * time.Second, quiet: quiet}
				_, err := r.Await(t.Context(), nil, nil)
				if e, ok := errors.AsType[*exit.Error](err); !ok || e.Status != exit.Store || e.Text != end {
					t.Errorf("got error %v, want %q", err, end)
				}
			})
			if got, want := printed(), line+"--wait 30s is over\n"; got != want {
				t.Errorf("stderr has %q, want %q", got, want)
			}
		})
	}
}

// failing is a store that is down for a minute, then answers for two, and so on.
type failing struct {
	driver.Store
	since time.Time
}

func (s failing) Acquire(ctx context.Context, q driver.AcquireRequest) (driver.Grant, error) {
	if time.Since(s.since)%(3*time.Minute) < time.Minute {
		return driver.Grant{}, errors.New("it is down")
	}
	return taken{s.Store}.Acquire(ctx, q)
}

// A store that fails again, after it has answered, is named again.
func TestStoreThatFailsAgain(t *testing.T) {
	printed := stderr(t)
	synctest.Test(t, func(t *testing.T) {
		r := Request{Store: location.Location{URL: "failing://host"}, Resources: []string{"r"}, wait: 8 * time.Minute, quiet: true, poll: time.Second}
		if _, err := r.Await(t.Context(), nil, nil); err == nil {
			t.Error("it was acquired")
		}
	})
	if got := printed(); strings.Count(got, "could not be used: it is down. Trying again until") != 3 {
		t.Errorf("stderr has %q, want a line for each of three times", got)
	}
}

// stderr makes stderr a file until the test ends. The returned function returns what was
// printed.
func stderr(t *testing.T) func() string {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	old := os.Stderr
	os.Stderr = file
	t.Cleanup(func() {
		os.Stderr = old
		_ = file.Close()
	})
	return func() string {
		output.Flush()
		text, err := os.ReadFile(file.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}
