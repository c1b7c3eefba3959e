package main

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// notNested refuses to run inside a run that holds the same resource: it would
// wait for ever. Shared in shared is no harm, unless one of the two has a limit.
func (j *job) notNested(held string) error {
	exclusive, shared := j.marks()
	outer := strings.Fields(held)
	if slices.Contains(outer, exclusive) ||
		slices.Contains(outer, shared) && (j.mode == holdfast.Exclusive || j.lock.Limit > 0) {
		return exit.Usagef("this is inside a run that holds %q already; name another resource, or leave out one of the two runs", j.resource)
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

// marks stand for the resource in its store, locked such that no other lock of it
// fits beside, or shared without a limit. A hash keeps them short and without spaces.
func (j *job) marks() (exclusive, shared string) {
	store := j.store.Name()
	if j.store.File != "" {
		if file, err := filepath.Abs(j.store.File); err == nil {
			store = file
		}
	}
	mark := shortHash(store + "\x00" + j.resource)
	return "x" + mark, "s" + mark
}
