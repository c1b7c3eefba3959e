package main

import (
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/memlock"
)

func TestGrace(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		time.Hour:             5 * time.Second,
		30 * time.Second:      5 * time.Second,
		12 * time.Second:      2 * time.Second,
		60 * time.Millisecond: 10 * time.Millisecond,
	} {
		if got := grace(ttl); got != want {
			t.Errorf("grace(%v) = %v, want %v", ttl, got, want)
		}
	}
}

// A wrapper that stood still beyond the deadline may learn that the command has
// ended before it learns that the lock is lost.
func TestLossThatNobodyNoticedYet(t *testing.T) {
	path, err := exec.LookPath("true")
	if err != nil {
		t.Skip("needs the command true:", err)
	}
	for _, late := range []bool{false, true} {
		var now atomic.Int64
		client := holdfast.New(memlock.New(nil), &holdfast.Options{
			Clock: func() time.Duration { return time.Duration(now.Load()) },
		})
		hold, err := client.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		if late {
			now.Add(int64(holdfast.DefaultTTL))
		}
		p, err := process.Start(process.Spec{Path: path, Args: []string{"true"}, Env: os.Environ()})
		if err != nil {
			t.Fatal(err)
		}
		<-p.Done()
		j := job{acquisition: acquisition{ttl: holdfast.DefaultTTL}}
		if _, lost := j.attend(p, hold, nil); lost != late {
			t.Errorf("deadline passed: %v; lost: %v", late, lost)
		}
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestDescribe(t *testing.T) {
	ada := holdfast.Status{LockID: "id"}
	ada.Owner, ada.Host, ada.Comment = "ada", "web1", "nightly"
	nobody := holdfast.Status{LockID: "id"}
	for want, holders := range map[string][]holdfast.Status{
		`"r" is held`:                                     nil,
		`"r" is held by ada on web1 (nightly)`:            {ada},
		`"r" is held by ada on web1 (nightly) and 2 more`: {ada, nobody, nobody},
		`"r" is held by lock ID id`:                       {nobody},
	} {
		if got := describe(&holdfast.HeldError{Resource: "r", Holders: holders}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
