package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/explain"
	"github.com/holdfast-go/holdfast/driver"
)

func newExplain() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "explain [flags] RESOURCE",
		Short:      "Say who holds a resource, who waits for it, and why",
		SuggestFor: []string{"why"},
		Long: `Says in sentences who holds the resource, how long already and until when, who
waits in which order and why, and whether they wait for a holder that seems to
be gone. It changes nothing. Times and durations are by the store's clock.`,
		Example: `  holdfast explain nightly-report`,
	}
	store := storeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneResource(args, "holdfast explain RESOURCE"); err != nil {
			return err
		}
		if err := driver.ValidResource(args[0]); err != nil {
			return exit.Usagef("%v", err)
		}
		where, err := store()
		if err != nil {
			return err
		}
		return explain.Run(cmd.Context(), where, args[0])
	}
	return cmd
}

// oneResource refuses arguments that are not the name of one resource. form is the right
// command line.
func oneResource(args []string, form string) error {
	switch len(args) {
	case 0:
		return exit.Usagef("no resource is named: %s", form)
	case 1:
		return nil
	}
	return exit.Usagef("there is more than one resource: %s", form)
}
