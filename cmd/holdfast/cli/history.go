package cli

import (
	"github.com/spf13/cobra"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/historycmd"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

func newHistory() *cobra.Command {
	cmd := &cobra.Command{
		Use:        "history [flags] RESOURCE",
		Short:      "Show what became of the holds of a resource, as a server has kept it",
		SuggestFor: []string{"log", "past", "events"},
		Long: `Shows what became of the holds of a resource, the newest first. Only a server
that was started with --history keeps that, and each keeps what it has seen:
what passed through it at once, and what others do by looks at the store. The
first line, on stderr, says since when it is kept and what is not seen:

  granted    by this server
  seen       by a look, when others had got it; HELD is its age then
  released   by its holder
  forced     released by somebody else through this server
  gone       no longer there: released, or ended just after the look before
  expired    not released: its time was over, and it was not renewed when due
  lapsed     its time was over while looks failed, or it was released then
  lost       ended before the renewal that found that

HELD is how long it was held by then, RENEWED when it was renewed last.`,
		Example: `  holdfast history --store http://127.0.0.1:4653 nightly-report
  holdfast history --since 1h --json nightly-report`,
	}
	var q httplock.HistoryQuery
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	span.Var(flags, &q.Since, "since", 0, "show the events of the last time of this `duration` only, such as 72h; 0: all")
	flags.IntVar(&q.Limit, "limit", historycmd.DefaultLimit, "show so `many` events at most")
	asJSON := flags.Bool("json", false, "print one JSON object, with the answer of the server")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if q.Resource, err = oneResource(args, "holdfast history RESOURCE"); err != nil {
			return err
		}
		switch {
		case q.Limit < 1 || q.Limit > wire.MaxList:
			return exit.Usagef("--limit %d is not between 1 and %d", q.Limit, wire.MaxList)
		case q.Since < 0:
			return exit.Usagef("--since %v is negative", q.Since)
		}
		where, err := store()
		if err != nil {
			return err
		}
		return historycmd.Run(cmd.Context(), where, q, *asJSON)
	}
	return cmd
}
