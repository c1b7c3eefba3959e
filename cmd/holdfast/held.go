package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
)

// heldVariable is where run tells the runs inside its command what is locked
// already, so that none waits for a lock that its own caller holds.
const heldVariable = "HOLDFAST_HELD"

// isAround reports that the lock ID is that of a run around this process. What
// that locked is for that run alone to release.
func isAround(lockID string) bool {
	return slices.Contains(strings.Fields(os.Getenv(heldVariable)), lockIDMark(lockID))
}

func lockIDMark(lockID string) string { return "i" + shortHash(lockID) }

func shortHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// lockIDVariable is what run tells its command the lock ID in, and scripts use to
// keep one of their own.
const lockIDVariable = "HOLDFAST_LOCK_ID"

// told are the variables that run sets for its command. They are about the lock
// around that command, and no flags of a run within.
var told = []struct{ name, meaning string }{
	{"HOLDFAST_RESOURCE", "the resource"},
	{lockIDVariable, "the lock ID that holds it"},
	{"HOLDFAST_TOKEN", "the fencing token; what is written to can refuse lower ones"},
	{heldVariable, "what this run and those around it have locked, so that none waits for itself"},
}
