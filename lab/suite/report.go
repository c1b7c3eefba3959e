package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
	"github.com/holdfast-go/holdfast/lab/thorough"
)

// event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// test names one test or subtest.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + "." + t.name }

// report prints what go test prints, and counts. What was skipped comes at the end,
// and last of all once more what failed: a log of thousands of tests is read from
// there. Its methods may be called concurrently.
type report struct {
	mu       sync.Mutex // guards what follows
	w        io.Writer
	output   map[test][]string // of tests that have not ended
	skipped  []*skipped
	thorough int                  // tests that -short left out
	leftOut  []string             // modules that were not tested
	running  map[string]time.Time // packages, since when
	failures strings.Builder      // what the tests printed that failed
	passed   int                  // tests and subtests
	failed   int                  // the same, and packages that failed outside a test
	broken   map[string]bool
	repeat   []string // the commands that run again what failed
}

// mostNamed is how many tests are named that were skipped for one reason.
const mostNamed = 5

// skipped is what was left out for one reason.
type skipped struct {
	pkg   string   // "" if it is not tests
	tests []string // of the package
	why   string
}

func (s *skipped) String() string {
	if s.pkg == "" {
		return s.why
	}
	named, more := s.tests, ""
	if n := len(named) - mostNamed; n > 0 {
		named, more = named[:mostNamed], fmt.Sprintf(" and %d more", n)
	}
	return s.pkg + "." + strings.Join(named, ", ") + more + ": " + s.why
}

func newReport(w io.Writer) *report {
	return &report{w: w, output: make(map[test][]string), broken: make(map[string]bool), running: make(map[string]time.Time)}
}

// fail counts a failure that is no test's.
func (r *report) fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed++
}

func (r *report) skip(what string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.w, "SKIP %s\n", what)
	r.skipped = append(r.skipped, &skipped{why: what})
}

// leaveOut notes that a module is not tested.
func (r *report) leaveOut(m modules.Module) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leftOut = append(r.leftOut, m.Dir)
}

// waits prints now and then what is running, until ctx is done.
func (r *report) waits(ctx context.Context) {
	began := time.Now()
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.mu.Lock()
			fmt.Fprintf(r.w, "-- after %v: %s\n", time.Since(began).Round(time.Second), r.doing())
			r.mu.Unlock()
		}
	}
}

// doing says what is running. r.mu is held.
func (r *report) doing() string {
	var all []string
	for _, pkg := range slices.SortedFunc(maps.Keys(r.running), func(a, b string) int { return r.running[a].Compare(r.running[b]) }) {
		all = append(all, fmt.Sprintf("%s (%v)", pkg, time.Since(r.running[pkg]).Round(time.Second)))
	}
	if len(all) == 0 {
		return "compiling"
	}
	return "running " + strings.Join(all, ", ")
}

// read takes the events of one run of go test in a module to their end. It returns how
// many of them are failures.
func (r *report) read(events io.Reader, m modules.Module) (failed int, _ error) {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && r.take(line, m) {
			failed++
		}
		if err == io.EOF {
			return failed, nil
		}
		if err != nil {
			return failed, fmt.Errorf("the output of go test: %w", err)
		}
	}
}

// take takes one line and reports whether it is a failure.
func (r *report) take(line []byte, m modules.Module) (failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.w, "%s", line) // not all that go test prints is an event
		return false
	}
	t := test{e.Package, e.Test}
	switch e.Action {
	case "start":
		r.running[e.Package] = time.Now()
	case "build-output":
		fmt.Fprint(r.w, e.Output)
	case "output":
		switch {
		case e.Test != "":
			r.output[t] = append(r.output[t], e.Output)
		case e.Output != "PASS\n" && e.Output != "testing: warning: no tests to run\n":
			fmt.Fprint(r.w, e.Output) // without what go test says only because of -json
		}
	case "pass":
		if e.Test == "" {
			delete(r.running, e.Package)
		} else {
			r.passed++
			delete(r.output, t)
		}
	case "skip":
		if e.Test == "" {
			delete(r.running, e.Package)
		} else {
			if why := reason(r.output[t]); strings.HasPrefix(why, thorough.Skipped) {
				r.thorough++
			} else {
				r.note(t, why)
			}
			delete(r.output, t)
		}
	case "fail":
		if e.Test == "" {
			delete(r.running, e.Package)
			r.failPackage(e.Package, m)
		} else {
			r.failed++
			r.broken[e.Package] = true
			r.print(t, m)
		}
		return true
	}
	return false
}

// failPackage prints what tests wrote that had no time to end: a panic or a
// time-out stops them all. r.mu is held.
func (r *report) failPackage(pkg string, m modules.Module) {
	var unfinished []test
	for t := range r.output {
		if t.pkg == pkg {
			unfinished = append(unfinished, t)
		}
	}
	slices.SortFunc(unfinished, func(a, b test) int { return strings.Compare(a.name, b.name) })
	for _, t := range unfinished {
		r.print(t, m)
	}
	if !r.broken[pkg] {
		r.failed++
		fmt.Fprintf(&r.failures, "%s failed outside its tests: see above\n", pkg)
	}
}

func (r *report) print(t test, m modules.Module) {
	fmt.Fprintf(&r.failures, "%s\n", t)
	for _, line := range r.output[t] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(r.w, line)
			r.failures.WriteString(line)
		}
	}
	delete(r.output, t)
	if !strings.Contains(t.name, "/") { // its subtests run with it
		r.repeat = append(r.repeat, fmt.Sprintf("go -C %s test -race -count=1 -run '^%s$' .%s",
			m.Dir, t.name, strings.TrimPrefix(t.pkg, m.Path)))
	}
}

// note keeps that a test was skipped, beside the others of its package that were
// for the same reason.
func (r *report) note(t test, why string) {
	for _, s := range r.skipped {
		if s.pkg == t.pkg && s.why == why {
			s.tests = append(s.tests, t.name)
			return
		}
	}
	r.skipped = append(r.skipped, &skipped{t.pkg, []string{t.name}, why})
}

// place is where a line of a test's output comes from.
var place = regexp.MustCompile(`^\w+\.go:\d+: `)

// reason is what t.Skip was given.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			said = append(said, place.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(said, " ")
}

func (r *report) close() {
	if len(r.skipped) > 0 {
		fmt.Fprintf(r.w, "\n%d skipped:\n", len(r.skipped))
		for _, what := range r.skipped {
			fmt.Fprintf(r.w, "  SKIP %s\n", what)
		}
	}
	if r.thorough > 0 || len(r.leftOut) > 0 {
		fmt.Fprintf(r.w, "\n%d thorough tests and the modules %s were left out; make test-all runs them\n", r.thorough, strings.Join(r.leftOut, ", "))
	}
	if r.failures.Len() > 0 {
		fmt.Fprintf(r.w, "\nfailed:\n%s", &r.failures)
		if len(r.repeat) > 0 {
			fmt.Fprintf(r.w, "\nto repeat, in the top folder:\n  %s\n", strings.Join(r.repeat, "\n  "))
		}
	}
	fmt.Fprintf(r.w, "%d passed, %d failed\n", r.passed, r.failed)
}
