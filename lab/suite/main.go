// Command suite runs the tests of every module in its own folder. It prints a line for
// each package as it ends, and now and then what it waits for. It ends with what was
// skipped, by name, with the commands that repeat what failed, and with counts.
//
//	suite test [-packages EXPR] [FLAG…]    all tests but the thorough ones, of the folders that match; the flags go to go test
//	suite all [-packages EXPR] [FLAG…]     all tests
//	suite stress [FLAG…]                   tests many times under load
//
// It needs nothing but Go and git, so that the first command in a fresh clone
// is also the only one. HOLDFAST_REQUIRE, a list with commas, turns what would
// be skipped into a failure: "race" (the race detector) and "modules" (the
// modules' dependencies) are its words; the tests of stores know more.
//
// The servers that tests need are started once, for all modules, when a test asks.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/modules"
	"github.com/holdfast-go/holdfast/lab/internal/need"
)

// limit is how long the tests of one package may take: those of the command run on
// every server.
const limit = "30m"

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup does
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	err := suite(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

func suite(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want test, all or stress")
	}
	name, args := args[0], args[1:]
	switch name {
	case "stress":
		return stress(ctx, args)
	case "test", "all":
		folders := everywhere
		if len(args) > 1 && args[0] == "-packages" {
			var err error
			if folders, err = regexp.Compile("^(" + args[1] + ")$"); err != nil {
				return err
			}
			args = args[2:]
		}
		if name == "test" {
			return run(ctx, true, folders, append([]string{"-short"}, args...))
		}
		return run(ctx, false, folders, args)
	}
	return fmt.Errorf("%q is none of test, all and stress", name)
}

var (
	everywhere = regexp.MustCompile("")
	// heavy are modules whose tests compile libraries for minutes. A quick run leaves
	// them out.
	heavy = []string{"metrics/otelholdfast", "metrics/promholdfast", "lab/adapters", "lab/browser", "lab/observe"}
	// shared matches folders in which goroutines share state. A quick run uses the race
	// detector, which makes tests several times as slow, only there: behind the other
	// tests a server decides, and the code that asks it is the same.
	shared = regexp.MustCompile(`^(\.|adapt|driver|fence|httplock|internal|memlock|metrics/observe|server|sqlitelock)(/|$)`)
)

// run runs the tests of the folders that match, in all modules. A quick run does with
// less where little is lost.
func run(ctx context.Context, quick bool, folders *regexp.Regexp, args []string) error {
	root, err := modules.Root(ctx)
	if err != nil {
		return err
	}
	all, err := modules.Find(ctx, root)
	if err != nil {
		return err
	}
	r := newReport(os.Stdout)
	raceFlag := []string{"-race"}
	if err := raceWorks(ctx); err != nil {
		if err := skip(r, "race", "the race detector: "+err.Error()); err != nil {
			return err
		}
		raceFlag = nil
	}
	engines := goStartEngines(ctx, root)
	defer engines.stop()
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go r.waits(ctx)
	var jobs []job
	var chosen atomic.Int32
	slices.SortStableFunc(all, func(a, b modules.Module) int { return rank(a) - rank(b) })
	for _, m := range all {
		switch {
		case m.Dir == modules.Bench:
			continue
		case quick && slices.Contains(heavy, m.Dir):
			r.leaveOut(m)
			continue
		}
		jobs = append(jobs, func(ctx context.Context) error {
			packages, err := packagesOf(ctx, r, root, m)
			if err != nil {
				return err
			}
			if m.Dir != "." { // which needs no server
				if err := engines.wait(); err != nil {
					return fmt.Errorf("starting servers: %w", err)
				}
			}
			var plain, raced []string
			defer func() { chosen.Add(int32(len(plain) + len(raced))) }()
			for _, pkg := range packages {
				switch folder := folderOf(m, pkg); {
				case !folders.MatchString(folder):
				case quick && (!shared.MatchString(folder) || !m.Released()):
					plain = append(plain, pkg)
				default:
					raced = append(raced, pkg)
				}
			}
			if err := testModule(ctx, r, root, m, slices.Concat(raceFlag, args), raced); err != nil {
				return err
			}
			return testModule(ctx, r, root, m, args, plain)
		})
	}
	together := 2
	if quick {
		together = 3
	}
	if err := runJobs(ctx, together, jobs); err != nil {
		if ctx.Err() != nil {
			fmt.Println("== interrupted: not all tests were run")
			r.close()
		}
		return err
	}
	if chosen.Load() == 0 && folders != everywhere {
		return fmt.Errorf("no folder with tests matches %q: it is a regular expression of the whole path below the root, such as 'pglock(/.*)?'", folders)
	}
	fmt.Printf("== the tests took %v%s\n", time.Since(began).Round(time.Second), processorTime())
	r.close()
	if r.failed > 0 {
		return errors.New("tests failed")
	}
	return nil
}

// rank is when a module begins: what says most first, then what takes longest.
func rank(m modules.Module) int {
	order := []string{".", "pglock/integration", "cmd/holdfast", "eslock/integration", "lab", "sqlitelock"}
	if i := slices.Index(order, m.Dir); i >= 0 {
		return i
	}
	return len(order)
}

// job is one of the runs of go test.
type job func(ctx context.Context) error

// runJobs runs all of them, or those before one of them returns an error. Some run
// together: many tests wait most of their time.
func runJobs(ctx context.Context, together int, jobs []job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan job)
	var workers sync.WaitGroup
	for range together {
		workers.Go(func() {
			for run := range queue {
				if ctx.Err() != nil {
					continue
				}
				if err := run(ctx); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, run := range jobs {
		queue <- run
	}
	close(queue)
	workers.Wait()
	return context.Cause(ctx)
}

// packagesOf downloads what a module needs, and returns those of its packages that have
// tests.
func packagesOf(ctx context.Context, r *report, root string, m modules.Module) ([]string, error) {
	dir := filepath.Join(root, m.Dir)
	missing, err := missingDependencies(ctx, dir)
	if err != nil {
		return nil, err
	}
	if missing != "" {
		return nil, skip(r, "modules", fmt.Sprintf("everything in %s: its dependencies cannot be downloaded (%s). With a network, or a GOPROXY that can be reached: cd %s && GOWORK=off go mod download", dir, missing, dir))
	}
	return tested(ctx, root, m)
}

// tested are the packages of a module that have tests.
func tested(ctx context.Context, root string, m modules.Module) ([]string, error) {
	list, err := modules.Output(ctx, filepath.Join(root, m.Dir), "go", "list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	return strings.Fields(list), err
}

// folderOf is where a package of the module is, below the root.
func folderOf(m modules.Module, pkg string) string {
	return path.Join(m.Dir, strings.TrimPrefix(pkg, m.Path))
}

// testModule runs go test for packages of a module, in its folder.
func testModule(ctx context.Context, r *report, root string, m modules.Module, args, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	test := modules.Command(ctx, filepath.Join(root, m.Dir), "go",
		slices.Concat([]string{"test", "-json", "-vet=off", "-timeout", limit}, packages, args)...)
	// The race detector lets each program sleep for a second before it ends.
	test.Env = append(test.Env, "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	test.Stderr = os.Stderr
	ended := group(ctx, test)
	defer ended()
	events, err := test.StdoutPipe()
	if err != nil {
		return err
	}
	if err := test.Start(); err != nil {
		return err
	}
	failed, err := r.read(events, command{m, args})
	if err != nil {
		return err
	}
	if err := test.Wait(); err != nil {
		if _, ended := errors.AsType[*exec.ExitError](err); !ended {
			return err
		}
		// go test can fail without an event that says so.
		if failed == 0 {
			r.fail()
		}
	}
	return ctx.Err()
}

// skip notes what is left out, unless it is required.
func skip(r *report, word, what string) error {
	if need.Required(word) {
		return fmt.Errorf("HOLDFAST_REQUIRE has %s, but this is missing: %s", word, what)
	}
	r.skip(what)
	return nil
}

// raceWorks says why the race detector does not work: it needs a C compiler and
// the headers of the C library.
func raceWorks(ctx context.Context) error {
	out, err := modules.Output(ctx, ".", "go", "env", "CC")
	if err != nil {
		return err
	}
	const howTo = "on Debian: apt-get install gcc libc6-dev"
	cc := strings.Fields(out)
	if len(cc) == 0 {
		return errors.New("go env CC is empty; " + howTo)
	}
	dir, err := os.MkdirTemp("", "holdfast-cc-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	probe := exec.CommandContext(ctx, cc[0], append(cc[1:], "-x", "c", "-o", filepath.Join(dir, "probe"), "-")...)
	probe.Stdin = strings.NewReader("#include <stdlib.h>\n#include <pthread.h>\nint main(void) { return 0; }\n")
	if err := probe.Run(); err != nil {
		return fmt.Errorf("%s compiles no program (%w); %s", cc[0], err, howTo)
	}
	if out, err = modules.Output(ctx, ".", "go", "env", "CGO_ENABLED"); err != nil {
		return err
	}
	if strings.TrimSpace(out) != "1" {
		return errors.New("CGO_ENABLED is 0; set it to 1")
	}
	return nil
}

// unreachable is what the go command says when it gets no answer, or is told
// not to ask. Whatever else fails is a failure: a sum that differs, above all.
var unreachable = regexp.MustCompile(`(?m)^.*(dial tcp|GOPROXY=off|i/o timeout|TLS handshake timeout).*$`)

// missingDependencies downloads what the tests of a module need, and says what
// the network refused.
func missingDependencies(ctx context.Context, dir string) (string, error) {
	_, err := modules.Output(ctx, dir, "go", "list", "-deps", "-test", "./...")
	if err == nil {
		return "", nil
	}
	if line := unreachable.FindString(err.Error()); line != "" {
		return strings.TrimSpace(line), nil
	}
	// Broken code is reported better by go vet and go test.
	return "", ctx.Err()
}
