// Package sent records the commands that a client sends to MongoDB, for tests.
package sent

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/lab/engines"
)

// Commands records the commands of a client.
type Commands struct {
	mu  sync.Mutex
	all []bson.Raw
}

// Through returns the collection by a client of its own, whose commands are recorded.
func Through(t testing.TB, coll *mongo.Collection) (*mongo.Collection, *Commands) {
	t.Helper()
	c := new(Commands)
	return engines.MongoThrough(t, coll, options.Client().SetMonitor(c.Monitor())), c
}

// Monitor records the commands of a client that uses it.
func (c *Commands) Monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.all = append(c.all, bytes.Clone(e.Command))
	}}
}

// By returns the commands that do sends.
func (c *Commands) By(do func()) []bson.Raw {
	c.mu.Lock()
	c.all = nil
	c.mu.Unlock()
	do()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// Names returns the names of the commands that do sends.
func (c *Commands) Names(do func()) []string {
	var names []string
	for _, command := range c.By(do) {
		names = append(names, Name(command))
	}
	return names
}

// Name returns the name of a command.
func Name(command bson.Raw) string { return command.Index(0).Key() }

// Want fails unless do sends exactly the commands with these names.
func (c *Commands) Want(t *testing.T, what string, want []string, do func()) {
	t.Helper()
	if got := c.Names(do); !slices.Equal(got, want) {
		t.Errorf("%s sent %q, want %q", what, got, want)
	}
}
