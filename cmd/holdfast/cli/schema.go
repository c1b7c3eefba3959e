package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func newSchema() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "schema [flags] [URL]",
		Short: "Print what a store creates in its database, and the rights it needs",
		Long: `Prints what a store creates at its first use, and the rights that its user
needs: for PostgreSQL the SQL itself, for psql, with the rights in its first
comment; for other stores some sentences. schema connects to nothing and creates
nothing.

URL names the store as --store does.`,
		Example: `  holdfast schema postgres://db/app |
    psql -v ON_ERROR_STOP=1 --single-transaction postgres://admin@db/app
  holdfast schema redis:`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("schema takes one store, but got %d", len(args))
			}
			return nil
		},
	}
	store := storeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flag := cmd.Flags().Lookup("store")
		if len(args) > 0 {
			if flag.Changed && !env.ByVariable(flag) {
				return exit.Usagef("name the store once: as the argument or with --store")
			}
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
