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
	Action      string
	Package     string
	ImportPath  string // of build-output
	Test        string
	Output      string
	FailedBuild string // why a package failed: an ImportPath
}

// test names one test or subtest, or a package if it has no name.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + "." + t.name }

// report prints what go test prints, and counts. What was skipped comes at the end,
// and last of all once more what failed: a log of thousands of tests is read from
// there. Its methods may be called concurrently.
type report struct {
	mu       sync.Mutex // guards what follows
	w        io.Writer
	output   map[test][]string // of tests that have not ended, and of packages
	built    map[string]string // what compilers say, by import path
	skipped  []*skipped
	beside   map[string][]string  // packages, by what their stores or harnesses lack
	thorough int                  // tests that -short left out
	leftOut  []string             // modules that were not tested
	running  map[string]time.Time // packages, since when
	ran      map[string]bool      // packages of which a test has begun, or which have none to run
	failures strings.Builder      // what the tests printed that failed
	passed   int                  // tests and subtests
	failed   int                  // the same, and packages that failed outside a test
	broken   map[test][]string    // the subtests that failed in each test; the name of a package is empty
	repeat   []string             // the commands that run again what failed
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
	return &report{
		w: w, output: make(map[test][]string), built: make(map[string]string), beside: make(map[string][]string),
		broken: make(map[test][]string), running: make(map[string]time.Time), ran: make(map[string]bool),
	}
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

// command is a run of go test in a module.
type command struct {
	modules.Module
	flags []string
}

// again is the command that runs tests of a package again.
func (c command) again(pkg, run string) string {
	words := []string{"GOWORK=off go -C", c.Dir, "test"}
	for _, flag := range []string{"-race", "-short"} {
		if slices.Contains(c.flags, flag) {
			words = append(words, flag)
		}
	}
	for i, flag := range c.flags {
		if strings.HasPrefix(flag, "-tags") {
			words = append(words, flag)
			if flag == "-tags" && i+1 < len(c.flags) {
				words = append(words, c.flags[i+1])
			}
		}
	}
	words = append(words, "-count=1")
	if run != "" {
		words = append(words, "-run", "'"+strings.ReplaceAll(run, "'", `'\''`)+"'")
	}
	return strings.Join(append(words, "."+strings.TrimPrefix(pkg, c.Path)), " ")
}

// exactly is the expression for -run that chooses a test, or subtest, alone.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// read takes the events of a command to their end. It returns how many of them are
// failures.
func (r *report) read(events io.Reader, m command) (failed int, _ error) {
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
func (r *report) take(line []byte, m command) (failed bool) {
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
	case "run":
		r.ran[e.Package] = true
	case "build-output":
		fmt.Fprint(r.w, e.Output)
		r.built[e.ImportPath] += e.Output
	case "output":
		switch {
		case strings.HasSuffix(e.Output, "[no tests to run]\n"):
		case e.Output == "PASS\n": // go test says that and the next only because of -json
		case e.Output == "testing: warning: no tests to run\n":
			r.ran[e.Package] = true
		default:
			r.output[t] = append(r.output[t], e.Output)
			if e.Test == "" {
				fmt.Fprint(r.w, e.Output)
			}
		}
	case "pass":
		switch {
		case e.Test != "":
			r.passed++
		case !r.ran[e.Package]: // a TestMain that forgets m.Run, perhaps
			r.output[t] = append(r.output[t], "it ended without an error, and has run no test\n")
			r.failPackage(e, m)
			return true
		}
		if e.Test == "" {
			delete(r.running, e.Package)
		}
		delete(r.output, t)
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
			r.failPackage(e, m)
		} else {
			r.failed++
			r.print(t, m)
		}
		return true
	}
	return false
}

// failPackage prints what tests wrote that had no time to end: a panic or a
// time-out stops them all. r.mu is held.
func (r *report) failPackage(e event, m command) {
	pkg, own := e.Package, test{e.Package, ""}
	said := r.built[e.FailedBuild] + strings.Join(r.output[own], "")
	delete(r.output, own)
	delete(r.running, pkg)
	var unfinished []test
	for t := range r.output {
		if t.pkg == pkg {
			unfinished = append(unfinished, t)
		}
	}
	slices.SortFunc(unfinished, func(a, b test) int { return strings.Compare(a.name, b.name) })
	for _, t := range unfinished {
		if r.broken[own] != nil && !strings.Contains(strings.Join(r.output[t], ""), "--- FAIL") { // another has ended them all
			fmt.Fprintf(&r.failures, "%s was running\n", t)
			delete(r.output, t)
			continue
		}
		r.print(t, m)
	}
	if r.broken[own] == nil {
		r.failed++
		fmt.Fprintf(&r.failures, "%s failed outside its tests:\n%s", pkg, said)
		r.repeat = append(r.repeat, m.again(pkg, ""))
	}
}

// mostRepeated is how many subtests of a test are repeated one by one.
const mostRepeated = 3

// print prints what a test wrote that failed, after its subtests.
func (r *report) print(t test, m command) {
	var said strings.Builder
	for _, line := range r.output[t] {
		if !strings.HasPrefix(line, "=== ") {
			fmt.Fprint(r.w, line)
			said.WriteString(line)
		}
	}
	delete(r.output, t)
	subtests := r.broken[t]
	if len(subtests) == 0 || strings.Count(said.String(), "\n") > 1 {
		fmt.Fprintf(&r.failures, "%s\n%s", t, said.String())
	}
	if len(subtests) == 0 || len(subtests) > mostRepeated {
		subtests = []string{t.name}
	}
	outer := test{t.pkg, ""}
	if i := strings.LastIndex(t.name, "/"); i >= 0 {
		outer.name = t.name[:i]
	} else {
		for _, name := range subtests {
			r.repeat = append(r.repeat, m.again(t.pkg, exactly(name)))
		}
	}
	r.broken[outer] = append(r.broken[outer], subtests...)
}

// note keeps that a test was skipped, beside the others of its package that were
// for the same reason.
func (r *report) note(t test, why string) {
	if strings.HasPrefix(why, "this ") { // store, fence or backend, or its harness
		if !slices.Contains(r.beside[why], t.pkg) {
			r.beside[why] = append(r.beside[why], t.pkg)
		}
		return
	}
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

// reason is what t.Skip was given, which is the last that a test says.
func reason(output []string) string {
	var said []string
	for _, line := range output {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			if place.MatchString(line) {
				said = nil
			}
			said = append(said, place.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(said, " ")
}

func (r *report) close() {
	if len(r.beside) > 0 {
		fmt.Fprintf(r.w, "\nsubtests of suites that do not apply:\n")
		for _, why := range slices.Sorted(maps.Keys(r.beside)) {
			fmt.Fprintf(r.w, "  %s: %s\n", why, strings.Join(r.beside[why], ", "))
		}
	}
	if len(r.skipped) > 0 {
		fmt.Fprintf(r.w, "\n%d skipped:\n", len(r.skipped))
		for _, what := range r.skipped {
			fmt.Fprintf(r.w, "  SKIP %s\n", what)
		}
	}
	if r.thorough > 0 {
		fmt.Fprintf(r.w, "\n%d thorough tests were left out: make thorough FOLDERS='…' runs those of some folders\n", r.thorough)
	}
	if len(r.leftOut) > 0 {
		fmt.Fprintf(r.w, "\nleft out, since they compile for long: %s\n", strings.Join(r.leftOut, ", "))
	}
	if r.failures.Len() > 0 {
		fmt.Fprintf(r.w, "\nfailed:\n%s", &r.failures)
		if len(r.repeat) > 0 {
			fmt.Fprintf(r.w, "\nto repeat, in the top folder:\n  %s\n", strings.Join(r.repeat, "\n  "))
		}
	}
	fmt.Fprintf(r.w, "%d passed, %d failed\n", r.passed, r.failed)
}
