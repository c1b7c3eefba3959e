package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/statuscmd"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
)

func newStatus() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "status [flags] [RESOURCE]",
		Short:      "Show who holds what, and who waits for it",
		SuggestFor: []string{"ls", "list", "ps", "show", "holds"},
		Long: `Shows the holds that block other clients. LEFT is the time until a hold ends
unless its holder renews it, HELD for how long it is held. Below the holds of a
resource are those that wait for it, in the order of the store's queue: who
waits for a second gets a place there, and with --fair at once. Those that wait
with --fair have a number, their position. With a RESOURCE the exit status is 0
if it is held, or with filters if one of its holds matches, and 1 otherwise.

With --watch it looks again and again, until it is interrupted: on a terminal
it redraws the table, without TOKEN and LOCK ID if they do not fit, elsewhere it
prints the table again when it has changed. Renewals are no change.

--json, also of unlock and renew, prints an array of holds: resource, lockId,
holdId, mode, limit, owner, host, comment, token, ttlMs (-1: no end), createdAt,
renewedAt, ageMs, renewedAgoMs, takeoverDelayMs, released and state, which is
held, no-end, released (--at-least), takeover-delay or expired. With a queue in
the store each hold has waiters: position (null without --fair), lockId, mode,
limit, owner, host, fair, since, ageMs, asked, askedAgoMs and leftMs. What is
unknown is null. A free resource with waiters has only resource, holdId (null)
and waiters. Dates are of the store's clock.`,
		Example: `  holdfast status
  holdfast status backup >/dev/null && echo "still running"
  holdfast status --owner ada --created-before 12h
  holdfast status --watch --json | while read -r holds; do ...; done`,
	}
	var v statuscmd.View
	flags := cmd.Flags()
	flags.SortFlags = false
	store := readFlag(cmd)
	v.Filter.Flags(flags)
	flags.BoolVar(&v.All, "all", false, "also the holds that Holdfast itself has, such as that of a server")
	flags.BoolVar(&v.JSON, "json", false, "print one JSON array, [] if there is nothing; with --watch one in each line")
	watch := flags.Bool("watch", false, "look again and again, until interrupted")
	var interval time.Duration
	span.Var(flags, &interval, "interval", 2*time.Second, "the `duration` between two looks at the store")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return exit.Usagef("status takes one resource, but got %s as well", quote.Short(args[1]))
		}
		if len(args) == 1 {
			if err := driver.ValidResource(args[0]); err != nil {
				return exit.Usagef("%v", err)
			}
			v.Filter.Resource = args[0]
		}
		if least := 100 * time.Millisecond; interval < least {
			return exit.Usagef("--interval %v is below %v", interval, least)
		}
		var err error
		if v.Where, err = store(); err != nil {
			return err
		}
		if *watch {
			return v.Watch(cmd.Context(), interval)
		}
		return v.Show(cmd.Context())
	}
	return cmd
}
