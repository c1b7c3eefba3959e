//go:build unix

package queue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	_ "github.com/holdfast-go/holdfast/eslock/esurl"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/internal/modules"
	"github.com/holdfast-go/holdfast/lab/thorough"
	_ "github.com/holdfast-go/holdfast/mongolock"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/redislock"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

const (
	commands = 30
	// killEvery selects the killed commands: the first in the queue, and every sixth after it.
	killEvery = 6
	// patience limits a round on a busy machine.
	patience = 3 * time.Minute
	// maxRounds is the number of rounds to try if live waiters lose their places.
	maxRounds = 3
	// between is the pause between two looks at the queue. It is short compared with the time
	// that the store keeps a place.
	between = 200 * time.Millisecond
)

// Commands that wait with --fair are served in the order that status shows, even if some of
// them are killed while they wait.
func TestCommandsAreServedInTheOrderOfStatus(t *testing.T) {
	root, err := modules.Root(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "holdfast")
	if _, err := modules.Output(t.Context(), filepath.Join(root, "cmd", "holdfast"), "go", "build", "-o", program, "."); err != nil {
		t.Fatal(err)
	}
	for name, storeURL := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "locks.db") },
		"redis":    func(t *testing.T) string { return storeOn(t, engines.Redis(t), "prefix", engines.RedisPrefix(t)) },
		"postgres": func(t *testing.T) string { return engines.PostgresDatabase(t) },
		"mongodb": func(t *testing.T) string {
			return engines.MongoURL(engines.MongoDB(t), engines.MongoDatabase(t).Name(), "")
		},
		"opensearch":    func(t *testing.T) string { return indexOn(t, engines.OpenSearch(t)) },
		"elasticsearch": func(t *testing.T) string { return indexOn(t, engines.Elasticsearch(t)) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "sqlite" {
				thorough.Test(t, "30 commands wait once more, on a server")
			}
			url := storeURL(t)
			for n := range maxRounds {
				r := newRound(t, program, url, fmt.Sprint("r", n))
				want, got := r.run(t)
				switch {
				case t.Failed() || slices.Equal(got, want):
					return
				case len(r.ended) == 0:
					t.Fatalf("served in the order %v\nwant                %v", got, want)
				}
				t.Logf("no verdict: the places of %v may have ended before they were served", slices.Sorted(maps.Keys(r.ended)))
			}
			t.Errorf("no verdict in %d rounds", maxRounds)
		})
	}
}

// storeOn returns the URL of a store on a server, with one more parameter.
func storeOn(t *testing.T, e engines.Engine, parameter, value string) string {
	t.Helper()
	u, err := driver.ParseURL(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	switch u.Scheme {
	case "http":
		u.Scheme = e.Kind
	case "https":
		u.Scheme = e.Kind + "+https"
	}
	query := u.Query()
	query.Set(parameter, value)
	u.RawQuery = query.Encode()
	return u.String()
}

func indexOn(t *testing.T, e engines.Engine) string {
	t.Helper()
	return storeOn(t, e, "index", engines.SearchIndex(t, e))
}

// command is a waiting command.
type command struct {
	*exec.Cmd
	stdout, stderr bytes.Buffer
}

// round is a resource with commands that wait for it.
type round struct {
	program, url, resource string
	client                 *holdfast.Client
	waiting                map[string]*command  // by owner, without the killed ones
	seen                   map[string]seenPlace // in the last look, by owner
	ended                  map[string]bool      // owners whose places may have ended before they were served
}

// seenPlace is the place of a waiter, as a look showed it.
type seenPlace struct {
	id    driver.PlaceID
	since time.Time
	until time.Time // on this process's clock: the store keeps the place at least until then
}

func newRound(t *testing.T, program, url, resource string) *round {
	t.Helper()
	client, err := holdfast.Open(t.Context(), url, &holdfast.Options{NoSweep: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return &round{
		program: program, url: url, resource: resource, client: client,
		waiting: make(map[string]*command), seen: make(map[string]seenPlace), ended: make(map[string]bool),
	}
}

// run returns the owners of the commands that were not killed, in the order of status (want)
// and in the order of their tokens (got).
func (r *round) run(t *testing.T) (want, got []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	release := r.hold(ctx, t)
	for i := range commands {
		owner := fmt.Sprintf("waiter%02d", i)
		c := &command{Cmd: r.command(ctx, "run", "--fair", "--owner", owner, r.resource, "--", "sh", "-c", `echo "$HOLDFAST_TOKEN"`)}
		c.Stdout, c.Stderr = &c.stdout, &c.stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		r.waiting[owner] = c
	}
	order := r.order(ctx, t)
	clear(r.ended) // ended before the order was read
	for i, owner := range order {
		if i%killEvery != 0 {
			want = append(want, owner)
			continue
		}
		c := r.waiting[owner]
		delete(r.waiting, owner)
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(); err == nil || c.stdout.Len() > 0 {
			t.Fatalf("%s was not to end before it was killed: %s", owner, &c.stdout)
		}
	}
	served, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		r.watch(ctx, t, served)
	}()
	release()
	tokens := make(map[string]uint64)
	for owner, c := range r.waiting {
		if err := c.Wait(); err != nil {
			t.Errorf("%s ended with %v: %s", owner, err, &c.stderr)
			continue
		}
		token, err := strconv.ParseUint(strings.TrimSpace(c.stdout.String()), 10, 64)
		if err != nil {
			t.Error(err)
		}
		tokens[owner] = token
		got = append(got, owner)
	}
	close(served)
	<-watched
	slices.SortFunc(got, func(a, b string) int { return cmp.Compare(tokens[a], tokens[b]) })
	return want, got
}

func (r *round) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, r.program, append([]string{name, "--store", r.url}, args...)...)
}

// hold lets a command hold the resource until release is called.
func (r *round) hold(ctx context.Context, t *testing.T) (release func()) {
	t.Helper()
	holder := r.command(ctx, "run", r.resource, "--", "sh", "-c", "echo held; exec cat")
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	holder.Stderr = &stderr
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if n, err := stdout.Read(make([]byte, 64)); n == 0 {
		t.Fatalf("the holder does not run: %v: %s", err, &stderr)
	}
	return func() {
		if err := errors.Join(stdin.Close(), holder.Wait()); err != nil {
			t.Errorf("the holder ended with %v: %s", err, &stderr)
		}
	}
}

// order waits until status shows all commands, and returns their owners in its order.
func (r *round) order(ctx context.Context, t *testing.T) []string {
	t.Helper()
	for {
		if r.look(ctx, t); len(r.seen) == commands {
			if order := r.status(ctx, t); len(order) == commands {
				return order
			}
		}
		select {
		case <-time.After(between):
		case <-ctx.Done():
			t.Fatalf("%d of %d commands have a place", len(r.seen), commands)
		}
	}
}

// status returns the owners of waiters in the order of the command status.
func (r *round) status(ctx context.Context, t *testing.T) (order []string) {
	t.Helper()
	cmd := r.command(ctx, "status", "--json", r.resource)
	out, err := modules.OutputOf(cmd)
	if err != nil {
		t.Fatal(err)
	}
	var shown []struct {
		Waiters []struct {
			Owner    string
			Position int
		}
	}
	if err := json.Unmarshal([]byte(out), &shown); err != nil || len(shown) != 1 {
		t.Fatalf("status: %v: %s", err, out)
	}
	for i, w := range shown[0].Waiters {
		if w.Position != i+1 {
			t.Fatalf("waiter number %d has position %d: %s", i+1, w.Position, out)
		}
		order = append(order, w.Owner)
	}
	return order
}

// watch looks at the queue until all commands are served.
func (r *round) watch(ctx context.Context, t *testing.T, served <-chan struct{}) {
	for {
		r.look(ctx, t)
		select {
		case <-served:
			return
		case <-time.After(between):
		}
	}
}

// look records the current places. A waiter that could not renew its place in time loses it,
// and gets a new one at the end.
func (r *round) look(ctx context.Context, t *testing.T) {
	called, now := time.Now(), make(map[string]seenPlace)
	for p, err := range r.client.Admin().Waiters(ctx, holdfast.Filter{Resource: r.resource}) {
		if err != nil {
			t.Error(err)
			return
		}
		now[p.Owner] = seenPlace{p.ID, p.Since, called.Add(p.Left)}
	}
	answered := time.Now()
	for owner, last := range r.seen {
		p, kept := now[owner]
		kept = kept && p.id == last.id && p.since.Equal(last.since)
		if !kept && !answered.Before(last.until) && r.waiting[owner] != nil {
			r.ended[owner] = true
		}
	}
	r.seen = now
}
