package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// heldVariable is where run tells the runs inside its command what is locked
// already, so that none waits for a lock that its own caller holds.
const heldVariable = "HOLDFAST_HELD"

// notNested refuses to run inside a run that holds the same resource: it would
// wait for ever. Shared in shared is no harm, unless one of the two has a limit.
func (j *job) notNested(held string) error {
	exclusive, shared := j.marks()
	outer := strings.Fields(held)
	if slices.Contains(outer, exclusive) ||
		slices.Contains(outer, shared) && (j.mode == holdfast.Exclusive || j.lock.Limit > 0) {
		return usagef("this is inside a run that holds %q already; name another resource, or leave out one of the two runs", j.resource)
	}
	return nil
}

// held is the value of heldVariable for the command.
func (j *job) held(outer, lockID string) string {
	mark, shared := j.marks()
	if j.mode == holdfast.Shared && j.lock.Limit == 0 {
		mark = shared
	}
	return strings.TrimSpace(outer + " " + mark + " " + lockIDMark(lockID))
}

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

// marks stand for the resource in its store, locked such that no other lock of it
// fits beside, or shared without a limit. A hash keeps them short and without spaces.
func (j *job) marks() (exclusive, shared string) {
	store := j.store.name()
	if j.store.file != "" {
		if file, err := filepath.Abs(j.store.file); err == nil {
			store = file
		}
	}
	mark := shortHash(store + "\x00" + j.resource)
	return "x" + mark, "s" + mark
}
