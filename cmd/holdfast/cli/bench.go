package cli

import (
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/measure"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
	"github.com/holdfast-go/holdfast/server/words"
)

// Bounds of bench: shorter is too short to measure, more is too much for one process.
const (
	minBench   = 100 * time.Millisecond
	maxClients = 1000
)

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
	var b measure.Bench
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	span.Var(flags, &b.For, "for", 5*time.Second, "how long, as a `duration`, to put load on the store")
	flags.IntVar(&b.Clients, "clients", 1, "how many clients, `N`, lock at once")
	flags.BoolVar(&b.Contend, "contend", false, "let all clients lock the same resource instead of one each")
	asJSON := flags.Bool("json", false, "print one JSON object")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case b.For < minBench:
			return exit.Usagef("--for %v is too short to measure anything; at least %v", b.For, minBench)
		case b.Clients < 1 || b.Clients > maxClients:
			return exit.Usagef("--clients %d is not between 1 and %d", b.Clients, maxClients)
		case b.Contend && b.Clients == 1:
			return exit.Usagef("--contend needs --clients 2 or more: one client has nobody to contend with")
		}
		where, err := store()
		if err != nil {
			return err
		}
		// A second signal does not cut off the release of the locks, which takes some seconds.
		ctx, stop := process.UntilEnded(cmd.Context())
		defer stop()
		output.Say("for %v this puts on %s all the load that %s can", b.For, where.Name(), words.Count(b.Clients, "client", "clients"))
		b.Open = where.Client
		result, err := b.Run(ctx, where.Name())
		switch end := tidiedUp(ctx); {
		case err == nil && *asJSON:
			return exit.Printed(output.JSON(os.Stdout, result))
		case err == nil:
			return exit.Printed(output.Table(os.Stdout, result.Rows()))
		case end != nil:
			return end
		case errors.Is(err, holdfast.ErrLost):
			return exit.Errorf(exit.Lost, "%s. The figures are not reliable; measure again", output.Reason(err))
		}
		return where.Failure(err)
	}
	return cmd
}
