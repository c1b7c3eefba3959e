package env

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
)

// HeldVariable tells the runs inside run's command what is locked already, so that
// none waits for a lock that its own caller holds.
const HeldVariable = "HOLDFAST_HELD"

// IsAround reports whether the lock ID is that of a run around this process. Only
// that run releases what it locked.
func IsAround(lockID string) bool {
	return slices.Contains(strings.Fields(os.Getenv(HeldVariable)), LockIDMark(lockID))
}

// LockIDMark returns what stands for the lock ID in HeldVariable.
func LockIDMark(lockID string) string { return "i" + Hash(lockID) }

// Hash returns a short hash of the text, in hex.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// LockIDVariable tells run's command the lock ID. Scripts keep one of their own
// in it.
const LockIDVariable = "HOLDFAST_LOCK_ID"

// Told lists the variables that run sets for its command. They describe the lock
// around the command, so a run inside does not take them as flags.
var Told = []struct{ Name, Meaning string }{
	{"HOLDFAST_RESOURCE", "the resource"},
	{LockIDVariable, "the lock ID that holds it"},
	{"HOLDFAST_TOKEN", "the fencing token; what is written to can refuse lower ones"},
	{HeldVariable, "what this run and those around it have locked, so that none waits for itself"},
}
