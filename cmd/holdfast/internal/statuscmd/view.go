package statuscmd

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// View has the store, the filter and the format of status.
type View struct {
	Where  location.Location
	Filter Filter
	All    bool // see looker
	JSON   bool
}

// Show prints the holds once. With a resource, it returns an error if that is free.
func (v *View) Show(ctx context.Context) error {
	l := looker{where: v.Where, all: v.All, chooses: v.Filter.old}
	defer l.close()
	f := v.Filter.Filter
	s := l.look(ctx, f)
	holds, queues, err := s.holds, v.shown(s.holds, s.queues), s.err
	blocking := len(holds)
	if f.Expired && f.Resource != "" && blocking > 0 {
		// Whether the resource is held does not depend on expired holds.
		f.Expired = false
		others := l.look(ctx, f)
		blocking, err = len(others.holds), others.err
	}
	switch {
	case err != nil:
		return v.Where.Failure(err)
	case v.JSON:
		err = output.HoldsJSON(os.Stdout, holds, queues)
	case len(holds)+queues.Len() > 0:
		err = output.Table(os.Stdout, output.QueuedRows(holds, queues))
	case f.Resource == "":
		// Not on stdout, where scripts read rows.
		_, err = fmt.Fprintln(os.Stderr, v.nothing())
	}
	if err == nil && f.Resource != "" && blocking == 0 {
		text := v.nothing()
		if n := queues.Len(); n > 0 {
			text = fmt.Sprintf("%q is free, and %s", f.Resource, output.Wait(n))
		}
		return exit.Errorf(exit.Failed, "%s", text)
	}
	return exit.Printed(err)
}

// shown returns the queues of the resources whose holds are shown: all of them, unless a
// flag leaves holds out.
func (v *View) shown(holds []holdfast.Status, q output.Queues) output.Queues {
	if !v.Filter.narrow || q == nil {
		return q
	}
	of := output.Queues{}
	for _, s := range holds {
		if places := q[s.Resource]; places != nil {
			of[s.Resource] = places
		}
	}
	return of
}

// nothing returns the text for an empty list: nothing is held, or nothing matches.
func (v *View) nothing() string {
	resource := v.Filter.Resource
	switch {
	case v.Filter.narrow && resource != "":
		return fmt.Sprintf("no hold of %q matches", resource)
	case v.Filter.narrow:
		return "no hold matches"
	case resource != "":
		return fmt.Sprintf("%q is free", resource)
	}
	return "nothing is held"
}
