// Command bench measures Holdfast and compares the results with its targets. It prints a table
// of target, measured value and PASS or FAIL, and fails if one target is missed. Run it with
// make bench, make bench-serve or make bench-dashboard.
//
// Where possible, a target is a ratio to something that the same run measures in turns with
// Holdfast. The machine may be shared, and its other load then slows down both sides alike.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// measure is a measurement of one or several targets.
type measure struct {
	name string
	run  func(ctx context.Context, dir string) []result
}

// measures run in this order, each in a folder of its own. Whole processes come first. The file
// with a million rows comes late, because the disk is busy for a while afterwards.
var measures = []measure{
	{"run", measureRun},
	{"sqlite-pair", measureSQLitePair},
	{"memory-pair", measureMemoryPair},
	{"keep-alive", measureKeepAlive},
	{"waiters", measureWaiters},
	{"mongo-commands", measureMongoCommands},
	{"mongo-pair", measureMongoPair},
	{"mongo-resources", measureMongoResources},
	{"mongo-holders", measureMongoHolders},
	{"search-scripts", measureSearchScripts},
	{"search-pair", measureSearchPair},
	{"search-old", measureSearchOld},
	{"redis-pair", measureRedisPair},
	{"redis-peers", measureRedisPeers},
	{"redis-hand-over", measureRedisHandOver},
	{"redis-renewals", measureRedisRenewals},
	{"postgres-pair", measurePostgresPair},
	{"postgres-hand-over", measurePostgresHandOver},
	{"postgres-renewals", measurePostgresRenewals},
	{"hand-over", measureHandOver},
	{"queue", measureQueue},
	{"queue-renewals", measureQueueRenewals},
	{"idle", measureIdle},
	{"waiter-memory", measureWaiterMemory},
	{"file-size", measureFileSize},
}

// serveMeasures measure the server. They have a result file of their own, because they take as
// long as all of measures.
var serveMeasures = []measure{
	{"serve-pair", measureServePair},
	{"serve-bare", measureServeBare},
	{"serve-etcd", measureServeEtcd},
	{"serve-hand-over", measureServeHandOver},
	{"serve-rates", measureServeRates},
}

// dashboardMeasures measure the cost of watching a server, which also takes minutes.
var dashboardMeasures = []measure{{"dashboard", measureDashboard}}

// small means to check only that each measurement runs to its end: with few rounds, for a short
// time, and without a verdict.
var small bool

// scaled returns n, or much less if small.
func scaled[T int | time.Duration](n T) T {
	if small {
		return max(n/50, 1)
	}
	return n
}

// workers are the functions of worker processes, which this program starts itself.
var workers = map[string]func(ctx context.Context, p *peer){
	"pair":        workPair,
	"waiter":      workWaiter,
	"holder":      workHolder,
	"idle":        workIdle,
	"bare-server": workBareServer,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	name := os.Getenv(workerVariable)
	var err error
	if name != "" {
		err = work(ctx, name)
	} else {
		err = bench(ctx, os.Args[1:])
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.TrimSpace("bench "+name)+":", err)
		os.Exit(1)
	}
}

var errMissed = errors.New("a target was missed")

func bench(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	only := flags.String("run", "", "measure only what this regular `expression` matches")
	ofServer := flags.Bool("serve", false, "measure holdfast serve, and not the stores")
	ofDashboard := flags.Bool("dashboard", false, "measure what watching the dashboard costs")
	flags.BoolVar(&small, "small", false, "only try that each measurement runs to its end, with small numbers, which are not kept")
	keep := flags.String("keep", "", "write the results as JSON to this `file`; with -run only those results change there")
	_ = flags.Parse(args) // exits on an error
	chosen, err := regexp.Compile(*only)
	switch {
	case err != nil:
		return err
	case flags.NArg() > 0:
		return fmt.Errorf("unknown argument %q", flags.Arg(0))
	case small && *keep != "":
		return errors.New("results of small numbers are not kept: leave out -small or -keep")
	case *ofServer && *ofDashboard:
		return errors.New("-serve and -dashboard are different measurements")
	}

	all := measures
	switch {
	case *ofServer:
		all = serveMeasures
	case *ofDashboard:
		all = dashboardMeasures
	}
	r := results.NewReport()
	for _, m := range all {
		if !chosen.MatchString(m.name) {
			continue
		}
		start := time.Now()
		measured, err := runAgain(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Printf("%s: %.1f s\n", m.name, time.Since(start).Seconds())
		for _, one := range measured {
			one.Name = m.name
			fmt.Printf("  %s: %s (%s) %s\n    %s\n", one.What, one.Measured(), one.Target(), one.Verdict(), one.Detail)
			r.Results = append(r.Results, one)
		}
	}
	if len(r.Results) == 0 {
		return fmt.Errorf("-run %q matches none of: %s", *only, strings.Join(names(all), ", "))
	}
	fmt.Printf("\n%s\n", r.Table())
	if *keep != "" {
		if err := keepIn(*keep, r, all, *only != ""); err != nil {
			return err
		}
	}
	if !small && !r.Passed() {
		return errMissed
	}
	fmt.Println("PASS")
	return nil
}

// keepIn writes the results to the file. If they are a part, they replace the file's results of
// the same measurements, and the others stay.
func keepIn(file string, r *results.Report, all []measure, part bool) error {
	if part {
		var kept results.Report
		if err := results.Load(file, &kept); err != nil {
			return err
		}
		if err := kept.Replace(r, names(all)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		r = &kept
	}
	return results.Keep(file, r)
}

// runAgain is runOne, but measures a second time if a target is missed, because the machine may
// have been busy for a minute. The second value counts; its detail contains the first.
func runAgain(ctx context.Context, m measure) ([]result, error) {
	results, err := runOne(ctx, m)
	if err != nil || small || !slices.ContainsFunc(results, func(r result) bool { return !r.Pass() }) {
		return results, err
	}
	again, err := runOne(ctx, m)
	if err != nil {
		return nil, err
	}
	for i, first := range results {
		if !first.Pass() {
			results[i] = again[i]
			results[i].Detail += fmt.Sprintf("; measured a second time, after %s", first.Measured())
		}
	}
	return results, nil
}

// runOne runs the measurement in a folder of its own, and returns its failure.
func runOne(ctx context.Context, m measure) (_ []result, err error) {
	dir, err := os.MkdirTemp("", "holdfast-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(failedBy(recover()), os.RemoveAll(dir)) }()
	return m.run(ctx, dir), nil
}

func names(of []measure) []string {
	var all []string
	for _, m := range of {
		all = append(all, m.name)
	}
	return all
}
