package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/httplock"
)

func newUnlock() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "unlock [flags] [LOCK-ID | --force RESOURCE]",
		Short:      "Release locks by lock ID, or those of a resource by force",
		SuggestFor: []string{"release", "rm", "free", "force-unlock"},
		Long: `Releases all locks of the lock ID and shows them. Without a LOCK-ID it takes
$HOLDFAST_LOCK_ID.

With --force it releases the holds of the RESOURCE, for holders that cannot be
ended otherwise. It shows the holds and asks first; without a terminal it needs
--yes. It releases only the holds that it has shown. A holder detects this at
its next renewal, perhaps after another client has acquired the lock: the work
of the holder until then is not protected, and it is said how long that may be.
holdfast run then ends its command.

The exit status is

  0   the locks are released
  1   there were none, or you answered no; nothing was done
  64  the command line is wrong; nothing was done
  69  the store cannot be used`,
		Example: `  id=$(holdfast lock --ttl 5m deploy)
  holdfast unlock "$id"

  holdfast unlock --force nightly-report`,
	}
	var f forced
	flags := cmd.Flags()
	flags.SortFlags = false
	store := readFlag(cmd)
	asJSON := flags.Bool("json", false, "print what was released as one JSON array, [] if that is nothing")
	force := flags.Bool("force", false, "release the RESOURCE, even if others hold it")
	flags.Func("hold", "with --force: only the hold with this `HOLD-ID`", f.setHold)
	flags.Func("reason", "with --force: why, as `TEXT` for the audit and the\nhistory of a server (default who does it)", f.setReason)
	flags.BoolVarP(&f.sure, "yes", "y", false, "with --force: do not ask")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !*force {
			for _, name := range []string{"hold", "reason", "yes"} {
				if flags.Changed(name) {
					return exit.Usagef("--%s needs --force", name)
				}
			}
			id, err := lockID(args, "holdfast unlock LOCK-ID")
			if err != nil {
				return err
			}
			where, err := store()
			if err != nil {
				return err
			}
			if len(args) == 0 && env.IsAround(id) {
				return refuseRun(cmd.Context(), where, id)
			}
			return release(cmd.Context(), where, id, *asJSON)
		}
		if err := f.parse(args); err != nil {
			return err
		}
		var err error
		if f.store, err = store(); err != nil {
			return err
		}
		return f.run(cmd.Context(), *asJSON)
	}
	return cmd
}

// release releases all holds of the lock ID.
func release(ctx context.Context, where location.Location, id string, asJSON bool) error {
	client, err := where.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	holds, err := client.Admin().ReleaseID(ctx, id)
	switch {
	case errors.Is(err, httplock.ErrDenied):
		return exit.Errorf(exit.Store, "%v. By a lock ID, callers release their own locks; holdfast unlock --force RESOURCE releases others'", where.Failure(err))
	case err != nil:
		return where.Failure(err)
	case len(holds) == 0:
		if err := notResource(ctx, client, where, id); err != nil {
			return err
		}
	}
	return printHolds(asJSON, holds, fmt.Sprintf("lock ID %q holds nothing", id))
}
