package env

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
)

// HeldVariable is where run tells the runs inside its command what is locked
// already, so that none waits for a lock that its own caller holds.
const HeldVariable = "HOLDFAST_HELD"

// IsAround reports that the lock ID is that of a run around this process. What
// that locked is for that run alone to release.
func IsAround(lockID string) bool {
	return slices.Contains(strings.Fields(os.Getenv(HeldVariable)), LockIDMark(lockID))
}

func LockIDMark(lockID string) string { return "i" + Hash(lockID) }

func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// LockIDVariable is what run tells its command the lock ID in, and scripts use to
// keep one of their own.
const LockIDVariable = "HOLDFAST_LOCK_ID"

// Told are the variables that run sets for its command. They are about the lock
// around that command, and no flags of a run within.
var Told = []struct{ Name, Meaning string }{
	{"HOLDFAST_RESOURCE", "the resource"},
	{LockIDVariable, "the lock ID that holds it"},
	{"HOLDFAST_TOKEN", "the fencing token; what is written to can refuse lower ones"},
	{HeldVariable, "what this run and those around it have locked, so that none waits for itself"},
}
