package serve

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
	"github.com/holdfast-go/holdfast/server/history/historyfile"
	"github.com/holdfast-go/holdfast/server/sight"
)

// openHistory opens the file of the history, if there is to be one.
func (r *running) openHistory(ctx context.Context) (err error) {
	if r.History == "" {
		return nil
	}
	if r.history, err = historyfile.Open(ctx, r.History, &history.Options{Logger: r.log}); err != nil {
		return exit.Errorf(exit.Failed, "%s", output.Reason(err))
	}
	r.meters.ShowHistory(r.history.State)
	return nil
}

// look makes what looks at the store: for the pages while somebody watches, and for the
// history as long as it is kept.
func (r *running) look() {
	count := r.meters.Observer().StoreCall
	r.looker = sight.New(r.store, &sight.Options{
		Skip: driver.Internal, Answered: r.health.Answered, Logger: r.log,
		StoreCall: func(ctx context.Context, op string, took time.Duration, err error) {
			count(ctx, op, took, err)
			r.health.StoreCall(ctx, op, took, err)
		},
	})
	if r.history != nil {
		r.history.Follow(r.looker)
	}
}

// closeHistory writes what is left of the history, and ends the looks.
func (r *running) closeHistory() {
	if r.history != nil {
		if err := r.history.Close(); err != nil {
			output.Say("%s; %d beginnings and ends of holds are missing", output.Reason(err), r.history.State().Dropped)
		}
	}
	if r.looker != nil {
		r.looker.Close()
	}
}
