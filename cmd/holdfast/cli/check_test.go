package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/fitness"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// samples are some durations in milliseconds.
func samples(ms ...int) *measure.Samples {
	s := measure.NewSamples()
	for _, n := range ms {
		s.Add(time.Duration(n) * time.Millisecond)
	}
	return s
}

func TestCheckJSON(t *testing.T) {
	where := location.Location{URL: "sqlite:locks.db", File: "locks.db"}
	for name, c := range map[string]struct {
		report fitness.Report
		want   string
	}{
		"all": {fitness.Report{
			Findings: []fitness.Finding{{Check: "open", Result: fitness.OK, Text: "a <b>\u009b"}},
			Traits:   sqlitelock.Traits(),
			Pair:     samples(1, 2, 3), Renewal: samples(1), HandOver: samples(1000),
			Clock: &fitness.Offset{Ahead: -1234567 * time.Nanosecond, GiveOrTake: time.Millisecond},
			TTL:   time.Minute,
		}, `{
  "store": "locks.db",
  "fit": true,
  "findings": [
    {
      "check": "open",
      "result": "ok",
      "text": "a <b>\u009b"
    }
  ],
  "traits": {
    "name": "sqlite",
    "reach": "host",
    "serverClock": true,
    "notifies": true,
    "durable": true,
    "shared": true,
    "fencing": "strict",
    "failover": ""
  },
  "figures": {
    "acquireAndRelease": {
      "count": 3,
      "p50Ms": 2,
      "p90Ms": 3,
      "p99Ms": 3,
      "maxMs": 3
    },
    "renewal": {
      "count": 1,
      "p50Ms": 1,
      "p90Ms": 1,
      "p99Ms": 1,
      "maxMs": 1
    },
    "handOver": {
      "count": 1,
      "p50Ms": 1000,
      "p90Ms": 1000,
      "p99Ms": 1000,
      "maxMs": 1000
    },
    "clockAheadMs": -1.23,
    "clockUncertaintyMs": 1,
    "shortestTtlMs": 60000
  }
}
`},
		"nothing": {fitness.Report{
			Findings: []fitness.Finding{{Check: "open", Result: fitness.Fail, Text: "no", Err: errors.New("told apart")}},
		}, `{
  "store": "locks.db",
  "fit": false,
  "findings": [
    {
      "check": "open",
      "result": "fail",
      "text": "no"
    }
  ],
  "traits": null,
  "figures": {
    "acquireAndRelease": null,
    "renewal": null,
    "handOver": null,
    "clockAheadMs": null,
    "clockUncertaintyMs": null,
    "shortestTtlMs": null
  }
}
`},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			if err := output.JSON(&b, checkedOf(where, c.report)); err != nil {
				t.Fatal(err)
			}
			if b.String() != c.want {
				t.Errorf("got\n%s", b.String())
			}
		})
	}
}

// A file that is not made yet is tried out in the folder in which it, or the first
// of its folders, is going to be, with the same parameters.
func TestTrial(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	if err := os.Mkdir("a % b?#", 0o700); err != nil {
		t.Fatal(err)
	}
	slashed := filepath.ToSlash(home)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	for storeURL, folder := range map[string]string{
		"sqlite:locks.db": home,
		"sqlite:new/folder/locks.db?synchronous=full":        home,
		"sqlite://" + slashed + "/new/locks.db":              home,
		"sqlite:a%20%25%20b%3F%23/locks.db":                  filepath.Join(home, "a % b?#"),
		"sqlite:a%20%25%20b%3F%23/x%2Fy.db?network-fs=allow": filepath.Join(home, "a % b?#"),
	} {
		t.Run(storeURL, func(t *testing.T) {
			where, err := location.Locate(storeURL)
			if err != nil {
				t.Fatal(err)
			}
			if !where.Empty() {
				t.Fatalf("%s is there", where.File)
			}
			trial, err := where.Trial()
			if err != nil {
				t.Fatal(err)
			}
			if got := filepath.Dir(filepath.Dir(trial.File)); got != folder {
				t.Errorf("tried out in %s, want %s", got, folder)
			}
			again, err := location.Locate(trial.URL)
			if err != nil || again.File != trial.File {
				t.Errorf("%s is the URL of %s (error %v), want %s", trial.URL, again.File, err, trial.File)
			}
			if _, parameters, _ := strings.Cut(storeURL, "?"); !strings.HasSuffix(trial.URL, "?"+parameters) && parameters != "" {
				t.Errorf("%s has not the parameters of %s", trial.URL, storeURL)
			}
		})
	}
	t.Run("link to nothing", func(t *testing.T) {
		if err := os.Symlink("nowhere", "link"); err != nil {
			t.Skip(err)
		}
		if (location.Location{File: "link"}).Empty() {
			t.Error("it would be made")
		}
	})
}
