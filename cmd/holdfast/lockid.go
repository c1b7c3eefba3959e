package main

import (
	"os"

	"github.com/holdfast-go/holdfast/driver"
)

// lockIDVariable is what run tells its command the lock ID in, and scripts use to
// keep one of their own.
const lockIDVariable = "HOLDFAST_LOCK_ID"

// lockID returns the lock ID that the argument names, or else the environment.
func lockID(args []string, form string) (string, error) {
	id, there := os.LookupEnv(lockIDVariable)
	switch {
	case len(args) > 1:
		return "", usagef("there is more than one lock ID: %s", form)
	case len(args) == 1:
		id = args[0]
	case !there:
		return "", usagef("no lock ID is named, and %s is not set: %s", lockIDVariable, form)
	case id == "":
		return "", usagef("%s is empty; set it to a lock ID, or name one: %s", lockIDVariable, form)
	}
	if err := driver.ValidLockID(id); err != nil {
		return "", usagef("%v", err)
	}
	return id, nil
}
