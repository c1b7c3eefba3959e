package job

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// NotNested refuses to run inside a run that holds the same resource: it would
// wait for ever. Shared in shared is no harm, unless one of the two has a limit.
func (j *Job) NotNested(held string) error {
	exclusive, shared := j.marks()
	outer := strings.Fields(held)
	if slices.Contains(outer, exclusive) ||
		slices.Contains(outer, shared) && (j.Mode == holdfast.Exclusive || j.Options.Limit > 0) {
		return exit.Usagef("this is inside a run that holds %q already; name another resource, or leave out one of the two runs", j.Resource)
	}
	return nil
}

// held is the value of heldVariable for the command.
func (j *Job) held(outer, lockID string) string {
	mark, shared := j.marks()
	if j.Mode == holdfast.Shared && j.Options.Limit == 0 {
		mark = shared
	}
	return strings.TrimSpace(outer + " " + mark + " " + env.LockIDMark(lockID))
}

// marks stand for the resource in its store, locked such that no other lock of it
// fits beside, or shared without a limit. A hash keeps them short and without spaces.
func (j *Job) marks() (exclusive, shared string) {
	store := j.Store.Name()
	if j.Store.File != "" {
		if file, err := filepath.Abs(j.Store.File); err == nil {
			store = file
		}
	}
	mark := env.Hash(store + "\x00" + j.Resource)
	return "x" + mark, "s" + mark
}
