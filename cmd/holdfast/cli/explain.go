package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/statuscmd"
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
	store := readFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		resource, err := oneResource(args, "holdfast explain RESOURCE")
		if err != nil {
			return err
		}
		where, err := store()
		if err != nil {
			return err
		}
		return statuscmd.Explain(cmd.Context(), where, resource)
	}
	return cmd
}

// oneResource returns the one resource that the arguments name. form is the right command
// line.
func oneResource(args []string, form string) (string, error) {
	switch len(args) {
	case 0:
		return "", exit.Usagef("no resource is named: %s", form)
	case 1:
		if err := driver.ValidResource(args[0]); err != nil {
			return "", exit.Usagef("%v", err)
		}
		return args[0], nil
	}
	return "", exit.Usagef("there is more than one resource: %s", form)
}
