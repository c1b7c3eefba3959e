package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
)

// Bounds of bench: shorter is too short to measure, more is too much for one process.
const (
	minBench   = 100 * time.Millisecond
	maxClients = 1000
)

// bench is one run of the command.
type bench struct {
	measure.Bench
	store location.Location
}

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench [flags]",
		Short: "Measure how fast a store grants, releases and hands over locks",
		Long: `Puts load on the store and measures it. For half of the time, clients acquire
and release locks as fast as the store lets them; then two clients pass a lock
to and fro. Each client has a connection of its own. bench releases all its
locks. The records of its resources remain until sweep removes them when they
are a day old.`,
		Example: `  holdfast bench --store sqlite:///var/lib/jobs/locks.db
  holdfast bench --clients 8 --for 20s             # each its own resource
  holdfast bench --clients 8 --contend --json      # all the same one`,
		Args: noArgs,
	}
	var b bench
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	span.Var(flags, &b.For, "for", 5*time.Second, "how long, as a `duration`, to put load on the store")
	flags.IntVar(&b.Clients, "clients", 1, "how many clients, `N`, lock at once")
	flags.BoolVar(&b.Contend, "contend", false, "let all clients lock the same resource instead of one each")
	asJSON := flags.Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		err := b.valid()
		if err != nil {
			return err
		}
		if b.store, err = store(); err != nil {
			return err
		}
		// A second signal does not cut off the release of the locks, which takes some seconds.
		ctx, stop := process.UntilEnded(cmd.Context())
		defer stop()
		result, err := b.run(ctx)
		if err != nil {
			return err
		}
		if *asJSON {
			return exit.Printed(output.JSON(os.Stdout, result))
		}
		return exit.Printed(output.Table(os.Stdout, result.Rows()))
	}
	return cmd
}

// valid checks the flags.
func (b *bench) valid() error {
	switch {
	case b.For < minBench:
		return exit.Usagef("--for %v is too short to measure anything; at least %v", b.For, minBench)
	case b.Clients < 1 || b.Clients > maxClients:
		return exit.Usagef("--clients %d is not between 1 and %d", b.Clients, maxClients)
	case b.Contend && b.Clients == 1:
		return exit.Usagef("--contend needs --clients 2 or more: one client has nobody to contend with")
	}
	return nil
}

func (b *bench) run(ctx context.Context) (measure.BenchResult, error) {
	output.Say("for %v this puts on %s all the load that %s can", b.For, b.store.Name(), count(b.Clients, "client"))
	b.Open = b.store.Client
	result, err := b.Run(ctx, b.store.Name())
	if err == nil {
		return result, nil
	}
	if end := tidiedUp(ctx); end != nil {
		return result, end
	}
	if errors.Is(err, holdfast.ErrLost) {
		return result, exit.Errorf(exit.Lost, "%s. The figures are not reliable; measure again", output.Reason(err))
	}
	return result, b.store.Failure(err)
}

// count returns the number with the noun.
func count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
