package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// Bounds of bench: less says nothing, and more is not what one process can do.
const (
	minBench   = 100 * time.Millisecond
	maxClients = 1000
)

// bench is one measurement of a store.
type bench struct {
	store   location.Location
	lasts   time.Duration
	clients int
	contend bool
}

// benchResult is what a bench found.
type benchResult struct {
	load     measure.LoadResult
	handOver *measure.Samples
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench [flags]",
		Short: "Measure how fast a store grants, releases and hands over locks",
		Long: `Puts load on the store and measures it: first, for half of the time, clients
that acquire and release locks as fast as the store lets them; then a lock that
two clients hand to and fro. Each client has a connection of its own. What it
locked is released; of its own resources records remain, which sweep removes
when they are a day old.`,
		Example: `  holdfast bench --store sqlite:///var/lib/jobs/locks.db
  holdfast bench --clients 8 --for 20s             # each its own resource
  holdfast bench --clients 8 --contend --json      # all the same one`,
		Args:                  noArgs,
		DisableFlagsInUseLine: true,
	}
	var b bench
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	flags.DurationVar(&b.lasts, "for", 5*time.Second, "how long, as a `duration`, to put load on the store")
	flags.IntVar(&b.clients, "clients", 1, "how many clients, `N`, lock at once")
	flags.BoolVar(&b.contend, "contend", false, "let all clients lock the same resource instead of one each")
	asJSON := flags.Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := b.valid()
		if err != nil {
			return err
		}
		if b.store, err = store(); err != nil {
			return err
		}
		ctx, stop := untilSignal(cmd.Context())
		defer stop()
		result, err := b.run(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return exit.Printed(output.JSON(os.Stdout, b.measuredOf(result)))
		}
		return exit.Printed(result.write(os.Stdout))
	}
	return cmd
}

// valid checks the flags.
func (b *bench) valid() error {
	switch {
	case b.lasts < minBench:
		return exit.Usagef("--for %v is too short to measure anything; at least %v", b.lasts, minBench)
	case b.clients < 1 || b.clients > maxClients:
		return exit.Usagef("--clients %d is not between 1 and %d", b.clients, maxClients)
	case b.contend && b.clients == 1:
		return exit.Usagef("--contend needs --clients 2 or more: one client has nobody to contend with")
	}
	return nil
}

func (b *bench) run(ctx context.Context) (benchResult, error) {
	output.Say("for %v this puts on %s all the load that %s can", b.lasts, b.store.Name(), count(b.clients, "client"))
	stop := showProgress(b.lasts)
	result, err := b.measure(ctx)
	stop()
	if err == nil {
		return result, nil
	}
	if end := tidiedUp(ctx); end != nil {
		return result, end
	}
	if errors.Is(err, holdfast.ErrLost) {
		return result, exit.Errorf(exit.Lost, "%s. Nothing that was measured can be relied on; measure again", output.Reason(err))
	}
	return result, b.store.Failure(err)
}

func (b *bench) measure(ctx context.Context) (r benchResult, err error) {
	random := driver.NewHoldID()
	resource := func(n int) string { return fmt.Sprintf("holdfast bench %s %d", random, n) }
	load := measure.Load{Open: b.store.Client, For: b.lasts / 2}
	for n := range b.clients {
		if b.contend {
			n = 0
		}
		load.Resources = append(load.Resources, resource(n+1))
	}
	if r.load, err = load.Run(ctx); err != nil {
		return r, err
	}
	r.handOver, err = measure.HandOvers(ctx, b.store.Client, resource(0), func(_ int64, spent time.Duration) bool {
		return spent < b.lasts-b.lasts/2
	})
	return r, err
}

// write prints a table.
func (r benchResult) write(out io.Writer) error {
	rows := [][]string{{"WHAT", "COUNT", "PER SECOND", "P50", "P90", "P99", "MAX"}}
	for _, row := range []struct {
		what      string
		perSecond string
		samples   *measure.Samples
	}{
		{"acquire and release", strconv.FormatFloat(r.load.PerSecond(), 'f', 0, 64), r.load.Pair},
		{"acquire", "", r.load.Acquire},
		{"release", "", r.load.Release},
		{"hand-over", "", r.handOver},
	} {
		cells := []string{row.what, strconv.FormatInt(row.samples.Count(), 10), row.perSecond}
		for _, part := range []float64{0.5, 0.9, 0.99, 1} {
			cells = append(cells, measure.Round(row.samples.Quantile(part)).String())
		}
		rows = append(rows, cells)
	}
	return output.Table(out, rows)
}

// measured is a result in JSON. Scripts read it: a field may be added, none
// changed.
type measured struct {
	Store     string  `json:"store"`
	Clients   int     `json:"clients"`
	Contend   bool    `json:"contend"`
	PerSecond float64 `json:"perSecond"`
	Pair      *times  `json:"acquireAndRelease"`
	Acquire   *times  `json:"acquire"`
	Release   *times  `json:"release"`
	HandOver  *times  `json:"handOver"`
}

func (b *bench) measuredOf(r benchResult) measured {
	perSecond, _ := strconv.ParseFloat(strconv.FormatFloat(r.load.PerSecond(), 'f', 1, 64), 64)
	return measured{
		Store: b.store.Name(), Clients: b.clients, Contend: b.contend, PerSecond: perSecond,
		Pair: timesOf(r.load.Pair), Acquire: timesOf(r.load.Acquire), Release: timesOf(r.load.Release),
		HandOver: timesOf(r.handOver),
	}
}

// count says how many.
func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
