package cli

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// requeue shows the waiter, asks, and sends it to the end of the queue.
func (f *forced) requeue(ctx context.Context, out outcome) error {
	nothing := fmt.Sprintf("%q has no place %s in its queue", f.resource, f.place)
	if f.store.Empty() {
		return out.printWaiters(nil, nothing)
	}
	client, err := f.store.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	if !client.Traits().Queue {
		return f.store.NoQueue("--place")
	}
	q := output.Queues{}
	for p, err := range client.Waiters(ctx, holdfast.Filter{Resource: f.resource}) {
		if err != nil {
			return f.store.Failure(err)
		}
		q.Add(p)
	}
	chosen := slices.DeleteFunc(q[f.resource], func(w output.Waiting) bool { return w.ID != f.place })
	if len(chosen) == 0 {
		return out.printWaiters(nil, nothing)
	}
	if err := output.Table(os.Stderr, output.PlaceRows(chosen)); err != nil {
		return exit.Printed(err)
	}
	if !f.sure && !agreed("Send this waiter to the end of the queue?") {
		return exit.Errorf(exit.Failed, "nothing was changed")
	}
	if err := client.ForceRequeue(ctx, f.resource, f.place); err != nil {
		return f.store.Failure(err)
	}
	return out.printWaiters(chosen, output.Waiter(chosen[0].Place)+" comes last, if it still waits")
}
