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

// event is a line of `go test -json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // for build-output
	Test        string
	Output      string
	FailedBuild string // if a package failed to build: its ImportPath
}

// test identifies a test or subtest. A package has no name.
type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + "." + t.name }

// report prints the output of go test and counts. Skipped tests come at the end, and after them
// the failures again, because a log of thousands of tests is read from its end. Its methods may
// be called concurrently.
type report struct {
	mu       sync.Mutex // guards the fields below
	w        io.Writer
	output   map[test][]string // of tests that have not ended, and of packages
	built    map[string]string // output of compilers, by import path
	skipped  []*skipped
	beside   map[string][]string  // packages, by what their stores or harnesses lack
	thorough int                  // number of tests that -short left out
	leftOut  []string             // modules that were not tested
	running  map[string]time.Time // packages, with their start
	ran      map[string]bool      // packages in which a test has begun, or that have none to run
	failures strings.Builder      // output of failed tests
	passed   int                  // tests and subtests
	failed   int                  // as passed, and packages that failed outside a test
	broken   map[test][]string    // the failed subtests of each test; a package has an empty name
	repeat   []string             // the commands that repeat failed tests
}

// mostNamed is how many skipped tests the report names for each reason.
const mostNamed = 5

// skipped is what was skipped for one reason.
type skipped struct {
	pkg   string   // "" for things other than tests
	tests []string // tests of the package
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

// fail counts a failure outside of tests.
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

// leaveOut records that a module is not tested.
func (r *report) leaveOut(m modules.Module) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leftOut = append(r.leftOut, m.Dir)
}

// printProgress prints what is running every 15 s, until ctx is done.
func (r *report) printProgress(ctx context.Context) {
	began := time.Now()
	ticker := time.NewTicker(15 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.mu.Lock()
			fmt.Fprintf(r.w, "-- after %v: %s\n", time.Since(began).Round(time.Second), r.runningPackages())
			r.mu.Unlock()
		}
	}
}

// runningPackages describes what is running. r.mu is held.
func (r *report) runningPackages() string {
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

// repeatCommand returns the command line that repeats tests of a package.
func (c command) repeatCommand(pkg, run string) string {
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

// exactly returns the expression for -run that chooses only this test or subtest.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// read reads the events of a command to their end. It returns the number of failures.
func (r *report) read(events io.Reader, m command) (failed int, _ error) {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && r.handleLine(line, m) {
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

// handleLine handles a line and reports whether it is a failure.
func (r *report) handleLine(line []byte, m command) (failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Fprintf(r.w, "%s", line) // go test also prints lines that are not events
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
		case e.Output == "PASS\n": // go test prints this line, and the next, only because of -json
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
		case !r.ran[e.Package]: // for example, a TestMain without m.Run
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
				r.noteSkip(t, why)
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

// failPackage prints the output of tests that did not end, because a panic or a time-out
// stopped all of them. r.mu is held.
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
		if r.broken[own] != nil && !strings.Contains(strings.Join(r.output[t], ""), "--- FAIL") { // another test has ended all of them
			fmt.Fprintf(&r.failures, "%s was running\n", t)
			delete(r.output, t)
			continue
		}
		r.print(t, m)
	}
	if r.broken[own] == nil {
		r.failed++
		fmt.Fprintf(&r.failures, "%s failed outside its tests:\n%s", pkg, said)
		r.repeat = append(r.repeat, m.repeatCommand(pkg, ""))
	}
}

// mostRepeated is the largest number of failed subtests that are repeated one by one.
const mostRepeated = 3

// print prints the output of a failed test, after that of its subtests.
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
			r.repeat = append(r.repeat, m.repeatCommand(t.pkg, exactly(name)))
		}
	}
	r.broken[outer] = append(r.broken[outer], subtests...)
}

// noteSkip records that a test was skipped, together with other tests of its package with the
// same reason.
func (r *report) noteSkip(t test, why string) {
	if strings.HasPrefix(why, "this ") { // store, fence, backend or harness
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

// place matches the position in the code at the start of a line of output.
var place = regexp.MustCompile(`^\w+\.go:\d+: `)

// reason returns the argument of t.Skip, which is the last output of a skipped test.
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
