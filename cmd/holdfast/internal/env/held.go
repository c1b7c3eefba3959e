package env

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
)

// HeldVariable has the locks of this run and those around it, so that a run inside
// run's command does not wait for a lock that its own caller holds.
const HeldVariable = "HOLDFAST_HELD"

// IsAround reports whether the lock ID is that of a run around this process. Only
// that run releases what it locked.
func IsAround(lockID string) bool { return marked(LockIDMark(lockID)) }

// IsHeldAround reports whether a run around this process holds the resource of the store in
// that place.
func IsHeldAround(place, resource string) bool { return marked(resourceMark(place, resource)) }

func marked(mark string) bool { return slices.Contains(strings.Fields(os.Getenv(HeldVariable)), mark) }

// LockIDMark returns the mark of the lock ID in HeldVariable.
func LockIDMark(lockID string) string { return "i" + hash(lockID) }

// Held returns the value of HeldVariable for the command of a run that holds the resources of
// the store in that place.
func Held(place, lockID string, resources []string) string {
	marks := append(strings.Fields(os.Getenv(HeldVariable)), LockIDMark(lockID))
	for _, name := range resources {
		marks = append(marks, resourceMark(place, name))
	}
	return strings.Join(marks, " ")
}

// resourceMark returns the mark of a resource in HeldVariable.
func resourceMark(place, name string) string { return "r" + hash(place+"\x00"+name) }

// hash returns a short hash of the text, in hex: it has no spaces.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
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
