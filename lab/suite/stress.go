package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
)

// stress runs tests many times while the machine is overloaded, so that tests that depend on
// timing fail. It compiles each package once, and runs several at the same time.
func stress(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("suite stress", flag.ContinueOnError)
	times := flags.Int("times", 200, "how often each package is run")
	at := flags.Int("at", 2*runtime.NumCPU(), "how many run at the same time")
	folders := flags.String("packages", "", "a regular expression of folders below the root, which is \".\"")
	race := flags.Bool("race", true, "compile with the race detector; without it a run takes a fifth of the CPU time")
	tests := flags.String("run", "", "a regular expression of tests, as go test has it")
	short := flags.Bool("short", false, "leave out the thorough tests")
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen, err := regexp.Compile("^(" + *folders + ")$")
	if err != nil {
		return err
	}
	root, err := modules.Root(ctx)
	if err != nil {
		return err
	}
	kept := filepath.Join(root, ".cache", "stress")
	if err := errors.Join(os.RemoveAll(kept), os.MkdirAll(kept, 0o755)); err != nil {
		return err
	}
	packages, err := compile(ctx, root, kept, chosen, *race)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(packages, func(p *stressed) bool {
		return strings.HasPrefix(p.folder, "lab/") || strings.Contains(p.folder, "integration")
	}) {
		engines := goStartEngines(ctx, root)
		defer engines.stop()
		if err := engines.wait(); err != nil {
			return fmt.Errorf("starting servers: %w", err)
		}
	}
	queue := make(chan *stressed)
	var workers sync.WaitGroup
	for range *at {
		workers.Go(func() {
			for p := range queue {
				p.run(ctx, kept, *tests, *short)
			}
		})
	}
	for range *times { // in turns, so that the packages load the machine for each other
		for _, p := range packages {
			queue <- p
		}
	}
	close(queue)
	workers.Wait()
	return errors.Join(summary(os.Stdout, packages, kept), ctx.Err()) // an interrupted run has a summary too
}

// stressed is a package whose tests run many times.
type stressed struct {
	folder, dir, binary string

	mu     sync.Mutex
	runs   int
	took   time.Duration
	failed int            // failed runs
	tests  map[string]int // how often each test failed
}

// compile builds the test binaries of the chosen packages.
func compile(ctx context.Context, root, to string, chosen *regexp.Regexp, race bool) ([]*stressed, error) {
	all, err := modules.Find(ctx, root)
	if err != nil {
		return nil, err
	}
	var found []*stressed
	for _, m := range all {
		if m.Dir == modules.Bench {
			continue
		}
		packages, err := tested(ctx, root, m)
		if err != nil {
			return nil, err
		}
		for _, pkg := range packages {
			folder := folderOf(m, pkg)
			if !chosen.MatchString(folder) {
				continue
			}
			dir := filepath.Join(root, folder)
			p := &stressed{folder: folder, dir: dir, tests: make(map[string]int)}
			p.binary = filepath.Join(to, p.name()+".test")
			if _, err := modules.Output(ctx, dir, "go", "test", fmt.Sprintf("-race=%v", race), "-c", "-o", p.binary, "."); err != nil {
				return nil, err
			}
			found = append(found, p)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no folder with tests is %s", chosen)
	}
	return found, nil
}

// name returns the folder as the name of a file.
func (p *stressed) name() string {
	return strings.ReplaceAll(strings.Replace(p.folder, ".", "root", 1), "/", "-")
}

func (p *stressed) run(ctx context.Context, kept, tests string, short bool) {
	if ctx.Err() != nil {
		return
	}
	began := time.Now()
	cmd := exec.CommandContext(ctx, "nice", p.binary, "-test.count=1", "-test.timeout="+limit, "-test.run="+tests, fmt.Sprintf("-test.short=%v", short))
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs++
	p.took += time.Since(began)
	if err == nil || ctx.Err() != nil {
		return
	}
	p.failed++
	for _, test := range failures(string(out)) {
		p.tests[test]++
	}
	log := filepath.Join(kept, fmt.Sprintf("%s-%d.log", p.name(), p.failed))
	if err := os.WriteFile(log, fmt.Appendf(out, "\n%v\n", err), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
	}
	fmt.Printf("%s failed, see %s\n", p.folder, log)
}

var (
	failLine = regexp.MustCompile(`(?m)^ *--- FAIL: (\S+)`)
	lastLine = regexp.MustCompile(`(?m)^(panic|fatal error): .*$|^WARNING: DATA RACE$|^goleak: .*$`)
)

// failures returns the failed tests in the output, without tests that failed only because of a
// subtest. Without any, it returns how the run ended.
func failures(output string) []string {
	seen := make(map[string]bool)
	for _, m := range failLine.FindAllStringSubmatch(output, -1) {
		seen[m[1]] = true
	}
	for test := range seen {
		for i := range test {
			if test[i] == '/' {
				delete(seen, test[:i])
			}
		}
	}
	if len(seen) == 0 {
		if line := lastLine.FindString(output); line != "" {
			return []string{line}
		}
		return []string{"the run, and no test"}
	}
	return slices.Sorted(maps.Keys(seen))
}

// summary prints how often each package ran and which tests failed.
func summary(w io.Writer, packages []*stressed, kept string) error {
	failed := 0
	fmt.Fprintln(w)
	for _, p := range packages {
		fmt.Fprintf(w, "%-24s %4d runs, %v each, %d failed\n", p.folder, p.runs, (p.took / time.Duration(max(1, p.runs))).Round(100*time.Millisecond), p.failed)
		for _, test := range slices.Sorted(maps.Keys(p.tests)) {
			fmt.Fprintf(w, "%24s %4d of %d: %s\n", "", p.tests[test], p.runs, test)
		}
		failed += p.failed
	}
	if failed > 0 {
		return fmt.Errorf("%d runs failed; what they printed is in %s", failed, kept)
	}
	return nil
}
