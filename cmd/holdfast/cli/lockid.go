package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/acquire"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/server/words"
)

// lockID returns the lock ID of the argument, or else of the environment.
func lockID(args []string, form string) (string, error) {
	id, there := os.LookupEnv(env.LockIDVariable)
	switch {
	case len(args) > 1:
		return "", exit.Usagef("there is more than one lock ID: %s", form)
	case len(args) == 1:
		id = args[0]
	case !there:
		return "", exit.Usagef("no lock ID is named, and %s is not set: %s", env.LockIDVariable, form)
	case id == "":
		return "", exit.Usagef("%s is empty; set it to a lock ID, or name one: %s", env.LockIDVariable, form)
	}
	if err := driver.ValidLockID(id); err != nil {
		return "", exit.Usagef("%v", err)
	}
	return id, nil
}

// refuseRun returns the exit for the lock ID of the run around this command, or of one that
// was.
func refuseRun(ctx context.Context, where location.Location, id string) error {
	client, err := where.Open(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	for s, err := range client.Admin().Holds(ctx, holdfast.Filter{LockID: id}) {
		if err != nil {
			return where.Failure(err)
		}
		if acquire.IsAround(s) {
			return exit.Usagef("%s is that of the run around this command, which releases its lock itself; name the lock ID to release it anyway", env.LockIDVariable)
		}
	}
	return exit.Usagef("%s", past(where))
}

// past says that HOLDFAST_LOCK_ID outlived its run.
func past(where location.Location) string {
	return fmt.Sprintf("%s is that of a run that has ended, or has no lock in %s; name a lock ID, or unset it", env.LockIDVariable, where.Name())
}

// notResource returns the exit for a lock ID that holds nothing and is the name of a
// resource that is held: most likely its name was given by mistake. It returns nil for
// all others.
func notResource(ctx context.Context, client *holdfast.Client, where location.Location, id string) error {
	for _, err := range client.Admin().Holds(ctx, holdfast.Filter{Resource: id}) {
		if errors.Is(err, httplock.ErrDenied) {
			return nil // it may be one, which is not for this caller to know
		}
		if err != nil {
			return where.Failure(err)
		}
		of := where.Flag() + " " + words.Argument(id)
		return exit.Usagef("lock ID %q holds nothing, but %q is a resource that is held; holdfast status%s shows the lock IDs of its holds, "+
			"holdfast unlock --force%s releases them, whoever they belong to", id, id, of, of)
	}
	return nil
}
