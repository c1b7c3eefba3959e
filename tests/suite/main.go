// Command suite runs the tests of every module in its own folder. It ends with what
// was skipped, by name, with the commands that repeat what failed, and with counts.
//
//	suite test [FLAG…]    all tests but the thorough ones; the flags go to go test
//	suite all [FLAG…]     all tests
//	suite gate -of N      as test, and then one in N of the thorough tests, chosen by the commit
//	suite stress [FLAG…]  tests many times under load
//
// It needs nothing but Go and git, so that the first command in a fresh clone
// is also the only one. HOLDFAST_REQUIRE, a list with commas, turns what would
// be skipped into a failure: "race" (the race detector) and "modules" (the
// modules' dependencies) are its words; the tests of stores know more.
//
// The servers that tests need are started once, for all modules.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/tests/internal/modules"
)

// limit is how long the tests of one package may take: those of the command run on
// every server.
const limit = "30m"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "suite:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want test, all, gate or stress")
	}
	name, args := args[0], args[1:]
	switch name {
	case "stress":
		return stress(ctx, args)
	case "test":
		return run(ctx, append([]string{"-short"}, args...), 0)
	case "all":
		return run(ctx, args, 0)
	case "gate":
		flags := flag.NewFlagSet("suite gate", flag.ContinueOnError)
		of := flags.Uint("of", 4, "run one in this many of the thorough tests")
		if err := flags.Parse(args); err != nil {
			return err
		}
		return run(ctx, []string{"-short"}, max(1, *of))
	}
	return fmt.Errorf("%q is none of test, all, gate and stress", name)
}

// run runs the tests of all modules, and then, unless of is 0, one in of those that
// -short left out.
func run(ctx context.Context, args []string, of uint) error {
	root, err := modules.Root(ctx)
	if err != nil {
		return err
	}
	all, err := modules.Find(ctx, root)
	if err != nil {
		return err
	}
	r := newReport(os.Stdout)
	var race []string
	if err := raceWorks(ctx); err == nil {
		race = []string{"-race"}
	} else if err := skip(r, "race", "the race detector: "+err.Error()); err != nil {
		return err
	}
	stop, err := startServers(ctx, root)
	if err != nil {
		return fmt.Errorf("starting servers: %w", err)
	}
	defer stop()
	began := time.Now()
	var jobs []job
	for _, m := range slices.Backward(all) { // module tests, the last but one, takes longest: it begins early
		if m.Dir == modules.Bench {
			continue
		}
		jobs = append(jobs, func(ctx context.Context) error {
			dir := filepath.Join(root, m.Dir)
			if ok, err := prepare(ctx, r, dir); err != nil || !ok {
				return err
			}
			return testModule(ctx, r, m, dir, slices.Concat(race, args, []string{"./..."}))
		})
	}
	if err := runJobs(ctx, jobs); err != nil {
		return err
	}
	fmt.Printf("== the tests took %v\n", time.Since(began).Round(time.Second))
	if of > 0 {
		if err := runPart(ctx, r, root, all, race, of); err != nil {
			return err
		}
	}
	r.close()
	if r.failed > 0 {
		return errors.New("tests failed")
	}
	return nil
}

// job is one of the runs of go test.
type job func(ctx context.Context) error

// together is how many jobs run at the same time: many tests wait most of their time.
const together = 2

// runJobs runs all of them, or those before one of them returns an error.
func runJobs(ctx context.Context, jobs []job) error {
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

// prepare downloads what a module needs and vets it. ok is false if it cannot be
// tested.
func prepare(ctx context.Context, r *report, dir string) (ok bool, _ error) {
	missing, err := missingDependencies(ctx, dir)
	if err != nil {
		return false, err
	}
	if missing != "" {
		return false, skip(r, "modules", fmt.Sprintf("everything in %s: its dependencies cannot be downloaded (%s). With a network, or a GOPROXY that can be reached: cd %s && GOWORK=off go mod download", dir, missing, dir))
	}
	vet := modules.Command(ctx, dir, "go", "vet", "./...")
	vet.Stdout, vet.Stderr = os.Stdout, os.Stdout
	if err := vet.Run(); err != nil {
		r.fail()
	}
	return true, nil
}

// testModule runs go test in a module's folder. Its packages were vetted.
func testModule(ctx context.Context, r *report, m modules.Module, dir string, args []string) error {
	test := modules.Command(ctx, dir, "go", append([]string{"test", "-json", "-vet=off", "-timeout", limit}, args...)...)
	test.Stderr = os.Stderr
	group(test)
	events, err := test.StdoutPipe()
	if err != nil {
		return err
	}
	if err := test.Start(); err != nil {
		return err
	}
	failed, err := r.read(events, m)
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
	if slices.Contains(strings.Split(os.Getenv("HOLDFAST_REQUIRE"), ","), word) {
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
