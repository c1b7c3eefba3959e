package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func newSweep() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "sweep [flags]",
		Short:      "Remove expired holds and the records of resources idle for a day",
		SuggestFor: []string{"clean", "prune", "gc"},
		Long: `Removes expired holds and the records of resources that were not locked for a
day. It is housekeeping: an expired hold blocks no client, swept or not. sweep
never touches a live hold, and may run at any time, beside any other command.`,
		Args: noArgs,
	}
	store := readFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		where, err := store()
		if err != nil {
			return err
		}
		client, err := where.Open(cmd.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		r, err := client.Admin().Sweep(cmd.Context())
		if err != nil {
			return where.Failure(err)
		}
		_, err = fmt.Fprintf(os.Stdout, "expired holds removed: %d, idle records removed: %d\n", r.Holds, r.Records)
		return exit.Printed(err)
	}
	return cmd
}
