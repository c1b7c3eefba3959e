// Package statuscmd shows the holds of a store, once or again and again.
package statuscmd

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/collect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/server"
)

// Looker lists the holds of a store again and again. It keeps its client for as long
// as that gets answers. A Looker is for one goroutine.
type Looker struct {
	Where   location.Location
	All     bool                        // also what the resources of Holdfast itself have, unless one is named
	chooses func(*holdfast.Status) bool // of the holds that a filter chooses; nil: all
	client  *holdfast.Client            // nil until there is something to look at
	file    fs.FileInfo                 // of the client, if the store is a file
}

// Look looks at the holds that the filter chooses, and at those that wait for the
// resources that its name chooses. It does not create the store's file.
func (l *Looker) Look(ctx context.Context, f holdfast.Filter) Sight {
	s := Sight{Queues: output.Queues{}, Begun: time.Now()}
	there, err := l.open(ctx)
	if there {
		if s.Holds, err = l.holds(ctx, f); err == nil {
			s.Queues, err = l.queues(ctx, f.Resource)
		}
	}
	if err != nil {
		l.Close()
		s.Holds, s.Queues, s.Err = nil, nil, err
	}
	return s
}

// holds returns the holds that the filter chooses, sorted by resource and token.
func (l *Looker) holds(ctx context.Context, f holdfast.Filter) ([]holdfast.Status, error) {
	holds, err := collect.All(l.client.Admin().Holds(ctx, f))
	holds = slices.DeleteFunc(holds, func(s holdfast.Status) bool {
		return l.chooses != nil && !l.chooses(&s) || f.Resource == "" && !l.All && server.Reserved(s.Resource)
	})
	// package slices would be compiled once more, for this large struct alone.
	sort.Slice(holds, func(i, j int) bool {
		a, b := &holds[i], &holds[j]
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Token, b.Token)) < 0
	})
	return holds, err
}

// queues returns those that wait for the resource, or for all if that is empty. It is nil
// if the store keeps no queue.
func (l *Looker) queues(ctx context.Context, resource string) (output.Queues, error) {
	if !l.client.Traits().Queue {
		return nil, nil
	}
	waiters, err := collect.All(l.client.Admin().Waiters(ctx, holdfast.Filter{Resource: resource}))
	return output.QueuesOf(waiters), err
}

// open makes the client, and reports whether there is a store. A file that has
// replaced another is another store.
func (l *Looker) open(ctx context.Context) (bool, error) {
	if l.Where.Empty() {
		l.Close()
		return false, nil
	}
	var file fs.FileInfo
	if l.Where.File != "" {
		file, _ = os.Stat(l.Where.File) // what fails here fails in the store, too
		if l.client != nil && !os.SameFile(file, l.file) {
			l.Close()
		}
	}
	if l.client == nil {
		client, err := holdfast.Open(ctx, l.Where.URL, nil)
		if err != nil {
			return false, err
		}
		l.client, l.file = client, file
	}
	return true, nil
}

// Close closes the client, if there is one.
func (l *Looker) Close() {
	if l.client != nil {
		_ = l.client.Close() // it holds nothing
		l.client = nil
	}
}

// Sight is what one look at a store showed.
type Sight struct {
	Holds  []holdfast.Status // nil with an error
	Queues output.Queues     // of the resources that the filter's name chooses; nil if the store keeps none
	Err    error
	Begun  time.Time // when the store was asked
}
