//go:build unix

package examples_test

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	_ "github.com/holdfast-go/holdfast/sqlitelock" // registers sqlite: URLs and the driver for cut
)

// One of two instances is killed while it sends a file, and the other takes over. After that
// the locks of the other instance go through all the events that its metrics count: at the
// end, one scrape has all metrics.
func TestBatch(t *testing.T) {
	inbox, file := t.TempDir(), filepath.Join(t.TempDir(), "locks.db")
	locks, err := holdfast.Open(t.Context(), "sqlite:"+file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = locks.Close() })
	s := newService(t, locks)
	for _, customer := range []string{"acme", "beta", "gamma"} {
		if err := os.Mkdir(filepath.Join(inbox, customer), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(inbox, name), []byte("17 EUR"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "batch", "-store", "sqlite:"+file+"?busy-timeout=200ms", "-listen", "127.0.0.1:0", "-inbox", inbox,
		"-to", s.url, "-customers", "acme,beta,gamma", "-parallel", "2", "-wait", "1s", "-every", "20ms")
	var address [2]string
	for range address {
		of, at := p.until(-1, "metrics on ")
		address[of] = at
	}

	drop("acme/1") // the service answers at the end
	first, _ := p.until(-1, "sending acme/1")
	m := &metrics{t: t, url: "http://" + address[1-first] + "/metrics"}
	m.until("holdfast_acquires_total{held}")
	other := p.kill(first)
	p.until(other, "sending acme/1")

	m.provoke(func() {
		s.busy("acme")
		if _, err := locks.Admin().ForceRelease(t.Context(), "customers/acme", holdfast.HoldID{}); err != nil {
			t.Fatal(err)
		}
	}, "holdfast_losses_total{forced}")
	m.provoke(func() {
		s.busy("acme")
		p.signal(other, syscall.SIGSTOP)
		// The Lock fails if the process was stopped during a change: nobody can write until it
		// continues.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		h, err := locks.Lock(ctx, "customers/acme", nil)
		p.signal(other, syscall.SIGCONT)
		if err != nil {
			t.Log(err)
		} else if err := h.Unlock(ctx); err != nil {
			t.Error(err)
		}
	}, "holdfast_losses_total{expired}")
	s.answer("gamma")
	m.provoke(func() {
		err := locks.Do(t.Context(), "customers/gamma", nil, func(context.Context) error {
			drop("gamma/1")
			m.until("holdfast_waiting{}")
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		p.until(other, "sent gamma/1")
	}, "holdfast_wait_duration_seconds{granted}")
	outage := []string{
		"holdfast_renewals_total{unknown}", "holdfast_losses_total{unreachable}",
		"holdfast_acquires_total{unknown}", "holdfast_releases_total{false}",
	}
	m.provoke(func() {
		s.hold("beta")
		drop("beta/1")
		s.busy("acme")
		s.busy("beta")
		cut(t, file, func() {
			s.answer("beta") // its release is not confirmed, unless it had lost its lock
			m.within(10*time.Second, outage...)
		})
	}, outage...)

	s.hold("beta")
	s.hold("gamma")
	drop("beta/1")
	s.busy("acme")
	s.busy("beta")
	drop("gamma/2") // it waits: two customers at a time
	m.until(slices.Concat(documented(t), []string{
		"holdfast_acquires_total{granted}", "holdfast_acquires_total{held}", "holdfast_acquires_total{unknown}",
		"holdfast_renewals_total{renewed}", "holdfast_renewals_total{lost}", "holdfast_renewals_total{unknown}",
		"holdfast_losses_total{expired}", "holdfast_losses_total{forced}", "holdfast_losses_total{unreachable}",
		"holdfast_releases_total{true}", "holdfast_releases_total{false}",
		"holdfast_wait_duration_seconds{granted}", "holdfast_wait_duration_seconds{held}",
		"holdfast_attempt_duration_seconds{granted}", "holdfast_attempt_duration_seconds{held}", "holdfast_attempt_duration_seconds{unknown}",
		"holdfast_hold_duration_seconds{}", "holdfast_held{}", "holdfast_waiting{}", "holdfast_hold_left_seconds{}", "holdfast_hold_left_ratio{}",
	})...)

	// The instance finishes the started work, begins nothing, and leaves no lock behind.
	p.signal(other, syscall.SIGTERM)
	p.until(other, "ending after")
	s.answer("acme")
	s.answer("beta")
	s.answer("gamma")
	p.ended(other)
	for name, want := range map[string]bool{"acme/1": false, "beta/1": false, "gamma/2": true} {
		_, err := os.Stat(filepath.Join(inbox, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", name, err, want)
		}
	}
	for h, err := range locks.Admin().Holds(t.Context(), holdfast.Filter{}) {
		t.Errorf("left behind: %+v, %v", h, err)
	}
}

// cut calls do while nobody can write to the store.
func cut(t *testing.T, file string, do func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	exec := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	exec("BEGIN IMMEDIATE")
	do()
	exec("ROLLBACK")
}
