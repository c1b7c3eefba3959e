package job

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// notNested refuses to run inside a run that holds the same resource: the inner one
// would wait forever. A shared lock within a shared one is fine, unless one of the
// two has a limit.
func (j *Job) notNested(held string) error {
	exclusive, shared := j.marks()
	outer := strings.Fields(held)
	if slices.Contains(outer, exclusive) ||
		slices.Contains(outer, shared) && (j.Mode == holdfast.Exclusive || j.Options.Limit > 0) {
		return exit.Usagef("this is inside a run that holds %q already; name another resource, or leave out one of the two runs", j.Resource)
	}
	return nil
}

// held returns the value of env.HeldVariable for the command.
func (j *Job) held(outer string, hold *holdfast.Hold) string {
	mark, shared := j.marks()
	if j.Mode == holdfast.Shared && j.Options.Limit == 0 {
		mark = shared
	}
	return strings.TrimSpace(strings.Join([]string{outer, mark, env.LockIDMark(hold.LockID()), env.HoldMark(j.Store.Place(), hold)}, " "))
}

// marks returns the marks in env.HeldVariable for the resource of this store: for a
// lock that excludes all others, and for a shared one without a limit. A hash keeps
// it short and without spaces.
func (j *Job) marks() (exclusive, shared string) {
	mark := env.Hash(j.Store.Place() + "\x00" + j.Resource)
	return "x" + mark, "s" + mark
}
