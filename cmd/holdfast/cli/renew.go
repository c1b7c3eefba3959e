package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

func newRenew() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "renew [flags] [LOCK-ID]",
		Short: "Extend all locks of a lock ID",
		Long: `Extends all locks of the lock ID to the TTL from now, and shows them. It
shortens none. Without a LOCK-ID it takes $HOLDFAST_LOCK_ID. The exit status is

  0   all locks are renewed
  64  the command line is wrong; nothing was done
  69  the store cannot be used
  76  there was nothing to renew, or some locks were lost`,
		Example: `  id=$(holdfast lock --ttl 5m deploy)
  holdfast renew --ttl 5m "$id" || exit   # between two steps`,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	store := readFlag(cmd)
	var ttl time.Duration
	flags.Func("ttl", "how long from now, as a `duration`, the locks last; or forever (required)", func(text string) (err error) {
		ttl, err = acquire.ParseTTLOrForever(text)
		return err
	})
	asJSON := flags.Bool("json", false, "print what was renewed as one JSON array")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		const form = "holdfast renew --ttl DURATION LOCK-ID"
		if !flags.Changed("ttl") {
			return exit.Usagef("--ttl is needed: %s", form)
		}
		id, err := lockID(args, form)
		if err != nil {
			return err
		}
		where, err := store()
		if err != nil {
			return err
		}
		lost := fmt.Sprintf("lock ID %q holds nothing: its time ran out, or it was released. Lock again", id)
		if len(args) == 0 && env.IsAround(id) {
			lost = past(where)
		}
		return renew(cmd.Context(), where, id, ttl, *asJSON, lost)
	}
	return cmd
}

// renew extends all holds of the lock ID. If it has none, the text is that of the error.
func renew(ctx context.Context, where location.Location, id string, ttl time.Duration, asJSON bool, lost string) error {
	client, err := where.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	holds, err := client.Admin().RenewID(ctx, id, ttl)
	if len(holds) > 0 {
		if err := printHolds(asJSON, holds, ""); err != nil {
			return err
		}
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, holdfast.ErrLost):
		return where.Failure(err)
	case len(holds) > 0:
		return exit.Errorf(exit.Lost, "some locks of lock ID %q were not renewed: %s. Lock their resources again", id, output.Reason(err))
	}
	if err := notResource(ctx, client, where, id); err != nil {
		return err
	}
	return exit.Errorf(exit.Lost, "%s", lost)
}
