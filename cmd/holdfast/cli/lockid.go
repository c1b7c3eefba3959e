package cli

import (
	"os"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/driver"
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
