package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

func newHeld() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "held [flags] RESOURCE",
		Short:      "Tell a script whether it runs under a lock",
		SuggestFor: []string{"under", "inside"},
		Long: `Ends with 0 if this is inside a run that holds the resource in this store, and
the store still has that hold. It prints nothing. A process that has outlived
its run, such as a tmux server, is no longer under its lock.

It tells that the lock is held now, not that its loss ends the caller: with
--on-loss warn nothing does. A script that takes its lock itself, unless it runs
under it, begins with

  holdfast held deploy || case $? in
  1) exec holdfast run deploy -- "$0" "$@" ;;
  *) exit 69 ;;
  esac

The exit status is

  0   this is inside a run that holds the resource
  1   it is not
  64  the command line is wrong
  69  the store cannot be used or did not answer`,
		Example: `  holdfast held deploy && echo "under the lock of deploy"`,
	}
	cmd.Flags().SortFlags = false
	store := storeFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		resource, err := oneResource(args, "holdfast held RESOURCE")
		if err != nil {
			return err
		}
		where, err := store()
		if err != nil {
			return err
		}
		under, err := acquire.IsUnder(cmd.Context(), where, resource)
		if err == nil && !under {
			err = &exit.Error{Status: exit.Failed} // without a line
		}
		return err
	}
	return cmd
}
