// Package statuscmd shows the holds of a store, once or again and again.
package statuscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"sort"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/collect"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/process"
	"github.com/holdfast-go/holdfast/server"
)

// patient is how long one look at a store may take. Then the display says that there
// is no answer.
const patient = 30 * time.Second

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
	s.Took = time.Since(s.Begun)
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
	Holds   []holdfast.Status // nil with an error
	Queues  output.Queues     // of the resources that the filter's name chooses; nil if the store keeps none
	Err     error
	Lasting bool          // this first look failed in a way that no later one mends
	Begun   time.Time     // when the store was asked
	Pause   time.Duration // until the next look
	Took    time.Duration
	Panic   any // of the goroutine that looks, with its stack
}

// Rhythm is the times at which to look.
type Rhythm struct {
	Interval time.Duration
	// Sparing makes the intervals longer, up to half a minute, so that looking takes
	// at most a fiftieth of the time.
	Sparing bool
	// Now asks for a look at once.
	Now <-chan struct{}
}

// Watch looks until ctx has ended, then closes the Looker and the channel.
func (l *Looker) Watch(ctx context.Context, filter func() holdfast.Filter, r Rhythm) <-chan Sight {
	sights := make(chan Sight)
	go func() {
		defer close(sights)
		defer l.Close()
		defer func() {
			if p := recover(); p != nil { // passed on to the goroutine that has to restore the terminal
				select {
				case sights <- Sight{Panic: fmt.Sprintf("%v\n\n%s", p, debug.Stack())}:
				case <-ctx.Done():
				}
			}
		}()
		var before time.Duration // what the last look with an answer took
		for first := true; ; first = false {
			looking, cancel := context.WithTimeout(ctx, patient)
			s := l.Look(looking, filter())
			cancel()
			s.Lasting = first && location.Lasting(s.Err)
			s.Pause = r.Interval
			if s.Err == nil {
				if r.Sparing && before > 0 {
					// A single slow look does not count.
					s.Pause = max(s.Pause, min(50*min(before, s.Took), 30*time.Second))
				}
				before = s.Took
			}
			select {
			case sights <- s:
			case <-ctx.Done():
				return
			}
			select {
			case <-time.After(s.Pause):
			case <-r.Now:
			case <-ctx.Done():
				return
			}
		}
	}()
	return sights
}

// NoAnswer returns the line that shows an error.
func NoAnswer(err error) string {
	return "no answer, trying again: " + output.Reason(cmp.Or(errors.Unwrap(err), err))
}

// UntilInterrupted returns a context that ends with the first signal that is to end
// the program. A second signal then kills the program.
func UntilInterrupted(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := process.UntilEnded(parent)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// Drain waits for the end of a cancelled Watch, but no longer than a second: a store
// may not return.
func Drain(sights <-chan Sight) {
	soon := time.After(time.Second)
	for {
		select {
		case _, ok := <-sights:
			if !ok {
				return
			}
		case <-soon:
			return
		}
	}
}
