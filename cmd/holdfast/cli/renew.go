package cli

import (
	"context"
	"errors"
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
	var r renewal
	flags.Func("ttl", "how long from now, as a `duration`, the locks last; or forever (required)", func(text string) (err error) {
		r.ttl, err = acquire.ParseTTLOrForever(text)
		return err
	})
	flags.BoolVar(&r.json, "json", false, "print what was renewed as one JSON array")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		const form = "holdfast renew --ttl DURATION LOCK-ID"
		if !flags.Changed("ttl") {
			return exit.Usagef("--ttl is needed: %s", form)
		}
		var err error
		if r.id, err = lockID(args, form); err != nil {
			return err
		}
		r.ofRun = len(args) == 0 && env.IsAround(r.id)
		if r.store, err = store(); err != nil {
			return err
		}
		return r.run(cmd.Context())
	}
	return cmd
}

// renewal is one run of the command.
type renewal struct {
	store location.Location
	id    string
	ofRun bool // nobody named the ID: a run set it for this command
	ttl   time.Duration
	json  bool
}

func (r renewal) run(ctx context.Context) error {
	client, err := r.store.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	holds, err := client.Admin().RenewID(ctx, r.id, r.ttl)
	if len(holds) > 0 {
		if err := printHolds(r.json, holds, ""); err != nil {
			return err
		}
	}
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, holdfast.ErrLost):
		return r.store.Failure(err)
	case len(holds) == 0:
		if err := notResource(ctx, client, r.store, r.id); err != nil {
			return err
		}
		return r.lost()
	}
	return exit.Errorf(exit.Lost, "some locks of lock ID %q were not renewed: %s. Lock their resources again", r.id, output.Reason(err))
}

// lost returns the exit for a lock ID that holds nothing.
func (r renewal) lost() error {
	if r.ofRun {
		return exit.Errorf(exit.Lost, "%s", past(r.store))
	}
	return exit.Errorf(exit.Lost, "lock ID %q holds nothing: its time ran out, or it was released. Lock again", r.id)
}
