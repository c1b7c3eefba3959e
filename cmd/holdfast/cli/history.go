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
		Short:      "Show who held a resource, and how that ended, as a server has kept it",
		SuggestFor: []string{"log", "past", "events"},
		Long: `Shows who had a resource, from when to when, and how that ended, the newest
first. Only a server that was started with --history keeps that, and each
keeps what it has seen: what passed through it at once, and what others do by
looks at the store. Of those two times are shown: it was not so yet at the
first, and was so at the second. The first lines, on stderr, say since when
that is kept and when the server did not look. HOW it ended:

  held       no end is known
  released   by its holder
  forced     released by somebody else through this server
  lost       nobody released it: its holder did not renew it in time
  unknown    looks no longer show it: released, or its time was over`,
		Example: `  holdfast history --store http://127.0.0.1:4653 nightly-report
  holdfast history --since 1h --json nightly-report`,
	}
	var q httplock.HistoryQuery
	flags := cmd.Flags()
	flags.SortFlags = false
	store := storeFlag(cmd)
	span.Var(flags, &q.Since, "since", 0, "show only what was held in the last time of this `duration`, such as 72h; 0: all")
	flags.IntVar(&q.Limit, "limit", historycmd.DefaultLimit, "show so `many` holds at most")
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
