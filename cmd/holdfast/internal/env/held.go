package env

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
)

// HeldVariable has the locks of this run and those around it, so that a run inside run's
// command does not wait for a lock that its own caller holds. Processes keep it for as long
// as they live, so a mark counts only while the hold that it names lives: a tmux server that
// was started under a run outlives that run.
//
// A mark is a lock ID and a hash of the resource, so that those of other resources cost nothing.
// The store is not in it: a lock ID is random, and whichever store has a hold of it tells. It is
// the ID itself, not a hash: to a caller without a name, a server shows the lock ID of a hold only
// if the caller names it.
const HeldVariable = "HOLDFAST_HELD"

// idEnd comes after the lock ID in a mark. The IDs of runs are random hex digits.
const idEnd = "="

// IsAround reports whether the lock ID is marked: it is that of a run around this process,
// or of one that was. Only that run releases what it locked.
func IsAround(lockID string) bool {
	return slices.ContainsFunc(marks(), func(mark string) bool {
		id, _, _ := strings.Cut(mark, idEnd)
		return id == lockID
	})
}

// Around returns the lock IDs of the runs around this process, and of those that were, that
// held a resource of that name.
func Around(resource string) (lockIDs []string) {
	for _, mark := range marks() {
		if id, hashed, _ := strings.Cut(mark, idEnd); hashed == hash(resource) {
			lockIDs = append(lockIDs, id)
		}
	}
	return lockIDs
}

// Held returns the value of HeldVariable for the command of a run that holds the resources.
func Held(lockID string, resources []string) string {
	all := marks()
	for _, name := range resources {
		all = append(all, lockID+idEnd+hash(name))
	}
	return strings.Join(all, " ")
}

func marks() []string { return strings.Fields(os.Getenv(HeldVariable)) }

// hash returns a short hash of the resource.
func hash(resource string) string {
	sum := sha256.Sum256([]byte(resource))
	return hex.EncodeToString(sum[:8])
}

// LockIDVariable has the lock ID for run's command. Scripts keep one of their own in
// it.
const LockIDVariable = "HOLDFAST_LOCK_ID"

// Told lists the variables that run sets for its command. They describe the lock
// around the command, so a run inside does not take them as flags.
var Told = []struct{ Name, Meaning string }{
	{"HOLDFAST_RESOURCE", "the resource; empty if there are several"},
	{LockIDVariable, "the lock ID that holds it"},
	{"HOLDFAST_TOKEN", "the fencing token; receivers of writes can refuse lower ones. Empty if there are several"},
	{"HOLDFAST_TOKENS", "the tokens of all resources, as a JSON object"},
	{HeldVariable, "the locks of this run and those around it, so that none waits for itself"},
}
