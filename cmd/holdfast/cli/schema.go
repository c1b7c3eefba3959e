package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func newSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [flags] [URL]",
		Short: "Print the SQL that a store in PostgreSQL needs",
		Long: `Prints the SQL that creates what a store in PostgreSQL needs, for psql, with the
rights of its user in the first comment. schema connects to nothing and creates
nothing. Other stores create what they need at their first use.

URL names the store as --store does, and counts for more.`,
		Example: `  holdfast schema postgres://db/app |
    psql -v ON_ERROR_STOP=1 --single-transaction postgres://admin@db/app`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("schema takes one store, but got %d", len(args))
			}
			return nil
		},
	}
	store := storeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := cmd.Flags().Set("store", args[0]); err != nil {
				return err
			}
		}
		where, err := store()
		if err != nil {
			return err
		}
		text, err := where.Schema()
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(os.Stdout, text)
		return exit.Printed(err)
	}
	return cmd
}
