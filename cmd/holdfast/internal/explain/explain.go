// Package explain says in sentences who holds a resource, who waits for it, and why.
package explain

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/statuscmd"
	"github.com/holdfast-go/holdfast/server/words"
)

// Run prints the sentences.
func Run(ctx context.Context, where location.Location, resource string) error {
	l := statuscmd.Looker{Where: where}
	defer l.Close()
	seen := l.Look(ctx, holdfast.Filter{Resource: resource})
	if seen.Err != nil {
		return where.Failure(seen.Err)
	}
	s := scene{resource: resource, holds: seen.Holds, noQueue: seen.Queues == nil, waiters: seen.Queues[resource]}
	for _, line := range s.sentences() {
		if _, err := fmt.Fprintln(os.Stdout, words.Printable(line)); err != nil {
			return exit.Printed(err)
		}
	}
	return nil
}

// scene is what the store shows of a resource.
type scene struct {
	resource string
	holds    []holdfast.Status
	noQueue  bool
	waiters  []output.Waiting
}
