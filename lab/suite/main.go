// Command suite runs the tests of all modules, each in its own folder (make test, make
// thorough, make stress). It prints a line for each package that ends and, from time to time,
// what is still running. At the end it lists the skipped tests, the commands that repeat the
// failed tests, and the counts.
//
//	suite test [-packages EXPR] [FLAG…]    all tests but the thorough ones, of the folders that match; the flags go to go test
//	suite all [-packages EXPR] [FLAG…]     all tests
//	suite stress [FLAG…]                   tests many times under load
//
// It needs only Go and git, so that it works in a fresh clone. HOLDFAST_REQUIRE is a list with
// commas of what must not be missing: a test that lacks it fails instead of being skipped. The
// suite itself knows the words "race" (the race detector) and "modules" (the dependencies of
// the modules); the tests of stores know more.
//
// The servers that tests need are started once for all modules, when the first test asks for
// one.
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

// limit is the time-out for the tests of one package. The tests of the command take longest,
// because they run on every server.
const limit = "30m"

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // unless nohup ignores it
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
	return fmt.Errorf("%q: want test, all or stress", name)
}

var (
	everywhere = regexp.MustCompile("")
	// heavy are modules whose tests compile libraries for minutes. make test leaves them out.
	heavy = []string{"metrics/otelholdfast", "metrics/promholdfast", "lab/adapters", "lab/browser", "lab/observe"}
	// shared matches folders in which goroutines share state. make test uses the race detector,
	// which makes tests several times as slow, only there. Elsewhere the concurrency is in the
	// server, and the code of the clients is the same.
	shared = regexp.MustCompile(`^(\.|adapt|driver|fence|httplock|internal|memlock|metrics/observe|server|sqlitelock)(/|$)`)
)

// run runs the tests of matching folders in all modules. A quick run leaves out checks that
// rarely find anything.
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
	go r.printProgress(ctx)
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
			if m.Dir != "." { // the root module needs no server
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

// rank orders modules: the most informative tests come first, then the longest.
func rank(m modules.Module) int {
	order := []string{".", "pglock/integration", "cmd/holdfast", "eslock/integration", "lab", "sqlitelock"}
	if i := slices.Index(order, m.Dir); i >= 0 {
		return i
	}
	return len(order)
}

// job is a run of go test.
type job func(ctx context.Context) error

// runJobs runs jobs until one returns an error. Some run at the same time, because many tests
// wait most of the time.
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

// packagesOf downloads the dependencies of a module, and returns its packages with tests.
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

// tested returns the packages of a module that have tests.
func tested(ctx context.Context, root string, m modules.Module) ([]string, error) {
	list, err := modules.Output(ctx, filepath.Join(root, m.Dir), "go", "list", "-f",
		"{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}", "./...")
	return strings.Fields(list), err
}

// folderOf returns the folder of a package in the module, below the root.
func folderOf(m modules.Module, pkg string) string {
	return path.Join(m.Dir, strings.TrimPrefix(pkg, m.Path))
}

// testModule runs go test for packages of a module, in the module's folder.
func testModule(ctx context.Context, r *report, root string, m modules.Module, args, packages []string) error {
	if len(packages) == 0 {
		return nil
	}
	test := modules.Command(ctx, filepath.Join(root, m.Dir), "go",
		slices.Concat([]string{"test", "-json", "-vet=off", "-timeout", limit}, packages, args)...)
	// By default, a program with the race detector sleeps for a second before it ends.
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
		// go test can fail without a failure among its events.
		if failed == 0 {
			r.fail()
		}
	}
	return ctx.Err()
}

// skip reports something that is skipped. If HOLDFAST_REQUIRE has the word, it returns an error
// instead.
func skip(r *report, word, what string) error {
	if need.Required(word) {
		return fmt.Errorf("HOLDFAST_REQUIRE has %s, but this is missing: %s", word, what)
	}
	r.skip(what)
	return nil
}

// raceWorks returns why the race detector does not work: it needs a C compiler and the headers
// of the C library.
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

// unreachable matches errors of the go command if it cannot, or must not, use the network.
// Other errors, such as a wrong checksum, are failures.
var unreachable = regexp.MustCompile(`(?m)^.*(dial tcp|GOPROXY=off|i/o timeout|TLS handshake timeout).*$`)

// missingDependencies downloads the dependencies of a module's tests. It returns the network
// error, or "".
func missingDependencies(ctx context.Context, dir string) (string, error) {
	_, err := modules.Output(ctx, dir, "go", "list", "-deps", "-test", "./...")
	if err == nil {
		return "", nil
	}
	if line := unreachable.FindString(err.Error()); line != "" {
		return strings.TrimSpace(line), nil
	}
	// go vet and go test report broken code better.
	return "", ctx.Err()
}
