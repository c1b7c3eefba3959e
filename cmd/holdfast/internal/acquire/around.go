package acquire

import (
	"context"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
)

// IsUnder reports whether a run around this process holds the resource. Without a mark of the
// resource it does not ask the store.
func IsUnder(ctx context.Context, store location.Location, resource string) (bool, error) {
	if len(env.Around(resource)) == 0 || store.Empty() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, oncePatience)
	defer cancel()
	client, err := store.Open(ctx)
	if err != nil {
		return false, err
	}
	defer client.Close()
	holds, err := around(ctx, client, resource)
	if err != nil {
		return false, store.Failure(err)
	}
	return len(holds) > 0, nil
}

// around returns the holds of the resource that the runs around this process have.
func around(ctx context.Context, client *holdfast.Client, resource string) ([]holdfast.Status, error) {
	var found []holdfast.Status
	for _, id := range env.Around(resource) {
		for s, err := range client.Admin().Holds(ctx, holdfast.Filter{Resource: resource, LockID: id}) {
			if err != nil {
				return nil, err
			}
			if IsAround(s) {
				found = append(found, s)
			}
		}
	}
	return found, nil
}

// IsAround reports whether a run around this process has the hold, and has not ended: the
// hold is neither kept for --at-least nor in its takeover delay.
func IsAround(s holdfast.Status) bool { return s.Live() && !s.Released && env.IsAround(s.LockID) }

// apart refuses what a run around this process holds. A refusal by the store names that hold.
// A grant in shared mode does not, nor does a server that hides the lock IDs of others.
func (a *acquirer) apart(ctx context.Context, resource string) error {
	if a.Mode != holdfast.Shared && !a.Store.IsServer() {
		return nil
	}
	looking, cancel := context.WithTimeout(ctx, oncePatience)
	defer cancel()
	holds, err := around(looking, a.client, resource)
	if err == nil && len(holds) > 0 {
		a.end(inside(holds[0]))
		return context.Cause(ctx)
	}
	return err
}

// inside returns the exit for what would wait for its own caller, which has that hold.
func inside(s holdfast.Status) error {
	now := time.Now()
	r := refusal{HeldError: &holdfast.HeldError{Holders: []holdfast.Status{s}}, at: now}
	return exit.Usagef("this is inside a run that holds %q already, the one by %s; name another resource, or leave out one of the two",
		s.Resource, r.holder(now))
}
