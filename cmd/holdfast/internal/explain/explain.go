// Package explain says in sentences who holds a resource, who waits for it, and why.
package explain

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/collect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/exit"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/server/words"
)

// Run prints the sentences.
func Run(ctx context.Context, where location.Location, resource string) error {
	s := scene{resource: resource}
	if !where.Empty() {
		client, err := where.Open(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		if err := s.look(ctx, client); err != nil {
			return where.Failure(err)
		}
	}
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

func (s *scene) look(ctx context.Context, client *holdfast.Client) (err error) {
	f := holdfast.Filter{Resource: s.resource}
	if s.holds, err = collect.All(client.Admin().Holds(ctx, f)); err != nil {
		return err
	}
	if s.noQueue = !client.Traits().Queue; s.noQueue {
		return nil
	}
	waiters, err := collect.All(client.Admin().Waiters(ctx, f))
	s.waiters = output.QueuesOf(waiters)[s.resource]
	return err
}
