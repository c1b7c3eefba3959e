package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
)

func newUnlock() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "unlock [flags] [LOCK-ID | --force RESOURCE]",
		Short: "Release locks by their lock ID, or somebody's by force",
		Long: `Releases all that the lock ID holds and shows what that was. Without a LOCK-ID
it takes $HOLDFAST_LOCK_ID. If there is nothing to release that is no error: it
is as it should be.

With --force it takes the RESOURCE away from whoever holds it: for a holder that
cannot be ended otherwise. It shows who is cut off and asks first; where nobody
can be asked it needs --yes. Only what was shown is released. The holder learns
it with its next renewal, which may be after somebody else got the lock: what it
does until then is not protected. holdfast run ends its command then. The exit
status is

  0   it is released, or was not held
  1   you said no; nothing was released
  64  the command line is wrong; nothing was done
  69  the store cannot be used`,
		Example: `  id=$(holdfast lock --ttl 5m deploy)
  holdfast unlock "$id"

  holdfast unlock --force nightly-report`,
		Args:                  cobra.ArbitraryArgs,
		DisableFlagsInUseLine: true,
	}
	var f forced
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	asJSON := flags.Bool("json", false, "print what was released as one JSON array, [] if that is nothing")
	force := flags.Bool("force", false, "release the RESOURCE, whoever holds it")
	hold := flags.String("hold", "", "with --force: only the hold with this `HOLD-ID`")
	flags.BoolVarP(&f.sure, "yes", "y", false, "with --force: do not ask")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		out := outcome{*asJSON}
		if !*force {
			for _, name := range []string{"hold", "yes"} {
				if flags.Changed(name) && !env.ByVariable(flags.Lookup(name)) {
					return exit.Usagef("--%s needs --force", name)
				}
			}
			id, err := lockID(args, "holdfast unlock LOCK-ID")
			if err != nil {
				return err
			}
			if len(args) == 0 && env.IsAround(id) {
				return exit.Usagef("%s is that of the run around this command, which releases its lock itself; name the lock ID to mean it all the same", env.LockIDVariable)
			}
			where, err := store()
			if err != nil {
				return err
			}
			return release(cmd.Context(), where, id, out)
		}
		if err := f.parse(args, flags.Changed("hold"), *hold); err != nil {
			return err
		}
		var err error
		if f.store, err = store(); err != nil {
			return err
		}
		return f.run(cmd.Context(), out)
	}
	return cmd
}

// release releases all holds of the lock ID.
func release(ctx context.Context, where location.Location, id string, out outcome) error {
	var holds []holdfast.Status
	if !where.Empty() {
		client, err := where.Open(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		if holds, err = client.ReleaseID(ctx, id); err != nil {
			return where.Failure(err)
		}
	}
	return out.print(holds, fmt.Sprintf("lock ID %q holds nothing", id))
}
