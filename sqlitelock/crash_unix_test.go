//go:build unix

package sqlitelock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

var kills = flag.Int("crash.kills", 16, "how many processes TestCrash kills")

// points are the points at which processes kill themselves.
var points = []sqlitelock.Point{
	sqlitelock.PointBegin, sqlitelock.PointBegun, sqlitelock.PointWritten, sqlitelock.PointCommit,
	sqlitelock.PointDone, sqlitelock.PointPassive, sqlitelock.PointRestart, pointAny,
}

const (
	// together is the number of processes that use a file at once, until each is dead.
	together = 4
	// freshEvery-th round uses a new file, so that processes are killed while they create
	// it.
	freshEvery = 4
	// patience is how long a process may live without reaching its point.
	patience = time.Minute
)

// TestCrash kills processes that change a file, at chosen moments. After each round the
// file is sound and no record is damaged; confirmed changes exist; and an interrupted
// change exists as a whole or not at all, depending on the moment. TestFaults of
// lab/campaign tests whether the holds of killed processes exclude others.
func TestCrash(t *testing.T) {
	lasting := newFile(t)
	var order []int
	for killed := 0; killed < *kills && !t.Failed(); killed += together {
		path := lasting
		if killed/together%freshEvery == freshEvery-1 {
			path = newFile(t)
		}
		if len(order) == 0 {
			order = rand.Perm(len(points)) // together divides their number
		}
		killAt(t, path, killed, order[:together])
		order = order[together:]
	}
}

// corpse is a process that has killed itself, with its output.
type corpse struct {
	point   sqlitelock.Point
	states  map[string]want // of its resources, as the store confirmed them
	pending map[string]want // the change without an answer, if there was one
}

// killAt starts a process for each of the points, waits until all are dead, and examines
// the file. The names of the processes have numbers beginning with first.
func killAt(t *testing.T, path string, first int, at []int) {
	corpses := make([]*corpse, len(at))
	errs := make([]error, len(at))
	var dying sync.WaitGroup
	for i, point := range at {
		name := fmt.Sprint("process-", first+i)
		dying.Go(func() { corpses[i], errs[i] = crash(t.Context(), path, name, points[point]) })
	}
	dying.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	s, err := sqlitelock.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { check(t, s.Close()) }()
	if text := integrity(t, path); text != "ok" {
		t.Errorf("integrity_check: %s", text)
	}
	examine(t, s, corpses)
}

// crash runs a process until it is dead.
func crash(ctx context.Context, path, name string, p sqlitelock.Point) (*corpse, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], path, name, string(p), strconv.Itoa(1+rand.N(20)))
	cmd.Env = append(os.Environ(), childEnv+"=crash")
	cmd.Stderr = os.Stderr
	var said bytes.Buffer
	cmd.Stdout = &said
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s was not killed %s in time", name, p)
	case !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL:
		return nil, fmt.Errorf("%s was not killed %s, but ended: %w", name, p, err)
	}
	return read(&said)
}

// read parses the output of a process.
func read(said io.Reader) (*corpse, error) {
	d := &corpse{states: make(map[string]want)}
	for lines := json.NewDecoder(said); ; {
		var l line
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF) && d.point == "":
			return nil, errors.New("a process died and did not say where")
		case errors.Is(err, io.EOF):
			return d, nil
		case err != nil:
			return nil, err
		}
		switch {
		case l.Do != nil:
			d.pending = l.Do
		case l.Done:
			maps.Copy(d.states, d.pending)
			d.pending = nil
		default:
			d.point = l.Kill
		}
	}
}

func integrity(t *testing.T, path string) (text string) {
	db := raw(t, path)
	check(t, db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&text))
	check(t, db.Close())
	return text
}

// examine compares the holds with the output of the dead processes, and releases them.
func examine(t *testing.T, s driver.Store, corpses []*corpse) {
	found := make(map[string]want)
	var left []driver.ReleaseRequest
	for st, err := range s.List(t.Context(), driver.Filter{}) {
		check(t, err)
		hours := int((st.Left + time.Hour - 1) / time.Hour)
		found[st.Resource] = want{st.HoldID.String(), hours}
		left = append(left, driver.ReleaseRequest{HoldRef: st.Ref()})
	}
	for _, d := range corpses {
		for resource, before := range d.states {
			if _, changing := d.pending[resource]; !changing && found[resource] != before {
				t.Errorf("killed %s: %s is %+v, but %+v was confirmed", d.point, resource, found[resource], before)
			}
		}
		happened, not := 0, 0
		for resource, after := range d.pending {
			switch found[resource] {
			case after:
				happened++
			case d.states[resource]:
				not++
			default:
				t.Errorf("killed %s: %s is %+v, changing from %+v to %+v",
					d.point, resource, found[resource], d.states[resource], after)
			}
		}
		switch {
		case happened > 0 && not > 0:
			t.Errorf("killed %s: %d of %d changes of a transaction happened", d.point, happened, happened+not)
		case happened > 0 && beforeCommit[d.point]:
			t.Errorf("killed %s, but the change happened", d.point)
		case not > 0 && d.point == sqlitelock.PointDone:
			t.Errorf("killed %s, but the change did not happen", d.point)
		}
	}
	results, err := s.Release(t.Context(), left)
	check(t, err)
	for _, r := range results {
		check(t, r.Err)
	}
}

// beforeCommit are the points at which no change may be visible yet.
var beforeCommit = map[sqlitelock.Point]bool{
	sqlitelock.PointBegin: true, sqlitelock.PointBegun: true,
	sqlitelock.PointWritten: true, sqlitelock.PointCommit: true,
}
