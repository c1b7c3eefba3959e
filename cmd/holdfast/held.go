package main

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
)

// heldVariable is where run tells the runs inside its command what is locked
// already, so that none waits for a lock that its own caller holds.
const heldVariable = "HOLDFAST_HELD"

// notNested refuses to run inside a run that holds the same resource: it would
// wait for ever. Shared in shared is no harm, unless there is a limit.
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
func (j *job) held(outer string) string {
	exclusive, shared := j.marks()
	if j.mode == holdfast.Shared {
		return strings.TrimSpace(outer + " " + shared)
	}
	return strings.TrimSpace(outer + " " + exclusive)
}

// marks stand for the resource in its store, locked in either mode. A hash keeps
// them short and without spaces.
func (j *job) marks() (exclusive, shared string) {
	store := j.store.name()
	if j.store.file != "" {
		if file, err := filepath.Abs(j.store.file); err == nil {
			store = file
		}
	}
	sum := sha256.Sum256([]byte(store + "\x00" + j.resource))
	mark := hex.EncodeToString(sum[:8])
	return "x" + mark, "s" + mark
}
