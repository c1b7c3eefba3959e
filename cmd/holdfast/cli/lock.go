package cli

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/driver"
)

func newLock() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "lock [flags] RESOURCE",
		Short:      "Acquire a lock and leave it, for scripts that release it themselves",
		SuggestFor: []string{"acquire", "take"},
		Long: `Waits until the resource is free, locks it, prints the lock ID and ends. The
lock stays until holdfast unlock releases it or its TTL is over: only holdfast
renew renews it. If a command can be run under the lock, holdfast run is safer:
it renews the lock, and ends the command if the lock is lost.

Locks with the same lock ID are released and renewed together. A lock ID has one
hold of a resource, also in shared mode: a second lock with it waits, without a
place in the queue, until the first has ended. Beside --ttl forever that is
without end. --json prints resource, lockId, holdId, mode, token and ttlMs (-1
without an end). The exit status is

  0   the resource is locked
  1   the lock ID could not be printed; the lock was released again
  64  the command line is wrong; nothing was done
  69  the store cannot be used
  75  the lock was not acquired in time`,
		Example: `  id=$(holdfast lock --ttl 5m deploy) || exit
  trap 'holdfast unlock "$id" >/dev/null' EXIT

  # or several under one ID, taken from the environment
  export HOLDFAST_LOCK_ID="release-$VERSION"
  holdfast lock --ttl 10m database
  holdfast lock --ttl 10m website
  holdfast unlock`,
	}
	var g grab
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	flags.Func("ttl", "how long, as a `duration`, it stays locked unless it is renewed or released;\n"+
		"or forever (required)", func(text string) (err error) {
		g.TTL, err = acquire.ParseTTLOrForever(text)
		return err
	})
	finish := g.Flags(cmd)
	flags.StringVar(&g.Options.LockID, "lock-id", "", "the lock `ID` that holds the lock (default $HOLDFAST_LOCK_ID, else a\n"+
		"random one)")
	flags.BoolVar(&g.json, "json", false, "print one JSON object instead of the lock ID")

	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		const form = "holdfast lock --ttl DURATION RESOURCE"
		resource, err := oneResource(args, form)
		switch {
		case err != nil:
			return err
		case !flags.Changed("ttl"):
			return exit.Usagef("--ttl is needed, for nothing renews the lock: %s", form)
		case flags.Changed("lock-id") && g.Options.LockID == "":
			return exit.Usagef("the lock ID is empty; give one, or none for a random one")
		}
		if g.Options.LockID != "" {
			if err := driver.ValidLockID(g.Options.LockID); err != nil {
				return exit.Usagef("%v", err)
			}
		}
		if err := g.SetResources(resource); err != nil {
			return err
		}
		if err := finish(); err != nil {
			return err
		}
		if g.Store, err = store(); err != nil {
			return err
		}
		return g.run(cmd.Context())
	}
	return cmd
}

// grab is one run of the command: it acquires a lock that outlives this process.
type grab struct {
	acquire.Request
	json bool
}

// run acquires the lock and prints its ID. If the ID may not have reached the caller,
// run releases the lock, because the caller could not.
func (g *grab) run(ctx context.Context) error {
	// A reader that has gone away must be an error, not the end of this process.
	process.OutlivePipes()
	// Never stopped: a signal must find the lock either printed or released.
	signals, _ := process.Signals()
	g.Options.NoKeepAlive = true
	l, err := g.Await(ctx, signals, &holdfast.Options{LeaveHolds: true})
	if err != nil {
		return err
	}
	g.SayReach()
	return g.handOver(l, os.Stdout, signals)
}

// handOver prints the lock ID and leaves the lock to the caller.
func (g *grab) handOver(l acquire.Lease, out io.Writer, signals <-chan os.Signal) error {
	if err := g.print(out, l.Holds[0]); err != nil {
		return exit.Errorf(exit.Failed, "the lock ID could not be printed: %v; %s", err, giveBack(l))
	}
	select {
	case sig := <-signals:
		return exit.Killed(sig, fmt.Sprintf("stopped by a signal (%v); %s", sig, giveBack(l)))
	default:
	}
	_ = l.Client.Close() // with LeaveHolds it leaves the lock
	return nil
}

// giveBack releases the lock and returns the text of the outcome.
func giveBack(l acquire.Lease) string {
	if err := l.Release(); err != nil {
		return fmt.Sprintf("the lock may still be held: %s. Release it with holdfast unlock %q", output.Reason(err), l.Holds[0].LockID())
	}
	return "the lock was released again"
}

// grabbed is a lock in JSON. Scripts read it: a field may be added, none changed.
type grabbed struct {
	Resource string          `json:"resource"`
	LockID   string          `json:"lockId"`
	HoldID   holdfast.HoldID `json:"holdId"`
	Mode     holdfast.Mode   `json:"mode"`
	Token    uint64          `json:"token"`
	TTLMs    int64           `json:"ttlMs"` // -1 without an end
}

// print prints the lock ID.
func (g *grab) print(out io.Writer, hold *holdfast.Hold) error {
	if !g.json {
		_, err := fmt.Fprintln(out, hold.LockID())
		return err
	}
	ttl := int64(-1)
	if g.TTL != holdfast.Forever {
		ttl = g.TTL.Milliseconds()
	}
	return output.JSON(out, grabbed{
		Resource: hold.Resource(), LockID: hold.LockID(), HoldID: hold.ID(),
		Mode: hold.Mode(), Token: hold.Token(), TTLMs: ttl,
	})
}
