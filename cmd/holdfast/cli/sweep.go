package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
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
		return sweep(cmd, where)
	}
	return cmd
}

func sweep(cmd *cobra.Command, where location.Location) error {
	var holds, records int
	if !where.Empty() {
		client, err := where.Open(cmd.Context())
		if err != nil {
			return err
		}
		defer client.Close()
		r, err := client.Admin().Sweep(cmd.Context())
		if err != nil {
			return where.Failure(err)
		}
		holds, records = r.Holds, r.Records
	}
	_, err := fmt.Fprintf(os.Stdout, "expired holds removed: %d, idle records removed: %d\n", holds, records)
	return exit.Printed(err)
}
