// Package statuscmd shows the holds of a store, once or again and again, and says why somebody
// waits.
package statuscmd

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/collect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/driver"
)

// looker looks at a store, perhaps again and again. It keeps its client of another store than a
// file for as long as that gets answers.
type looker struct {
	where   location.Location
	all     bool                        // also what the resources of Holdfast itself have, unless one is named
	chooses func(*holdfast.Status) bool // of the holds that a filter chooses; nil: all
	client  *holdfast.Client            // nil until there is something to look at
}

// sight is what one look at a store showed.
type sight struct {
	holds  []holdfast.Status // sorted by resource and token; nil with an error
	queues output.Queues     // of the resources that the filter's name chooses; nil if the store keeps none
	err    error
	begun  time.Time // when the store was asked
}

// look looks at the holds that the filter chooses, and at those that wait for the
// resources that its name chooses. It does not create the store's file.
func (l *looker) look(ctx context.Context, f holdfast.Filter) sight {
	s := sight{begun: time.Now()}
	if s.holds, s.queues, s.err = l.ask(ctx, f); s.err != nil {
		s.holds, s.queues = nil, nil
	}
	if s.err != nil || l.where.File != "" { // another file may be in its place next time
		l.close()
	}
	return s
}

func (l *looker) ask(ctx context.Context, f holdfast.Filter) (holds []holdfast.Status, q output.Queues, err error) {
	if l.where.Empty() {
		return nil, output.Queues{}, nil
	}
	if l.client == nil {
		if l.client, err = holdfast.Open(ctx, l.where.URL, nil); err != nil {
			return nil, nil, err
		}
	}
	admin := l.client.Admin()
	if holds, err = collect.All(admin.Holds(ctx, f)); err != nil {
		return nil, nil, err
	}
	holds = slices.DeleteFunc(holds, func(s holdfast.Status) bool {
		return l.chooses != nil && !l.chooses(&s) || f.Resource == "" && !l.all && driver.Internal(s.Resource)
	})
	// package slices would be compiled once more, for this large struct alone.
	sort.Slice(holds, func(i, j int) bool {
		a, b := &holds[i], &holds[j]
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Token, b.Token)) < 0
	})
	if !l.client.Traits().Queue {
		return holds, nil, nil
	}
	waiters, err := collect.All(admin.Waiters(ctx, holdfast.Filter{Resource: f.Resource}))
	return holds, output.QueuesOf(waiters), err
}

// close closes the client, if there is one.
func (l *looker) close() {
	if l.client != nil {
		_ = l.client.Close() // it holds nothing
		l.client = nil
	}
}
