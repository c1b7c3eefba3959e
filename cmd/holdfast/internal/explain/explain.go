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
	if s.holds, err = holdsOf(ctx, client, s.resource); err != nil {
		return err
	}
	if s.noQueue = !client.Traits().Queue; s.noQueue {
		return nil
	}
	s.waiters, err = waitersFor(ctx, client, s.resource)
	return err
}

func waitersFor(ctx context.Context, client *holdfast.Client, resource string) ([]output.Waiting, error) {
	q := output.Queues{}
	for p, err := range client.Admin().Waiters(ctx, holdfast.Filter{Resource: resource}) {
		if err != nil {
			return nil, err
		}
		q.Add(p)
	}
	return q[resource], nil
}

func holdsOf(ctx context.Context, client *holdfast.Client, resource string) (holds []holdfast.Status, err error) {
	for h, err := range client.Admin().Holds(ctx, holdfast.Filter{Resource: resource}) {
		if err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	return holds, nil
}
