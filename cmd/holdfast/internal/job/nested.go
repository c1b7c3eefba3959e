package job

import (
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/env"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
)

// notNested refuses to run inside a run that holds a resource of this one: the inner one
// would wait forever. A shared lock within a shared one is fine, unless one of the
// two has a limit.
func (j *Job) notNested(held string) error {
	outer := strings.Fields(held)
	for _, name := range j.Resources {
		exclusive, shared := j.marks(name)
		if slices.Contains(outer, exclusive) ||
			slices.Contains(outer, shared) && (j.Mode == holdfast.Exclusive || j.Options.Limit > 0) {
			return exit.Usagef("this is inside a run that holds %q already; name another resource, or leave out one of the two runs", name)
		}
	}
	return nil
}

// held returns the value of env.HeldVariable for the command.
func (j *Job) held(outer string, held locks) string {
	all := []string{outer, env.LockIDMark(held[0].LockID())}
	for _, h := range held {
		mark, shared := j.marks(h.Resource())
		if j.Mode == holdfast.Shared && j.Options.Limit == 0 {
			mark = shared
		}
		all = append(all, mark, env.HoldMark(j.Store.Place(), h))
	}
	return strings.TrimSpace(strings.Join(all, " "))
}

// marks returns the marks in env.HeldVariable for a resource of this store: for a
// lock that excludes all others, and for a shared one without a limit. A hash keeps
// it short and without spaces.
func (j *Job) marks(resource string) (exclusive, shared string) {
	mark := env.Hash(j.Store.Place() + "\x00" + resource)
	return "x" + mark, "s" + mark
}
