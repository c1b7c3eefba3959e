package job

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/guard"
)

// locks are the locks that a command runs under, at least one. It needs all of them.
type locks []*holdfast.Hold

// left is how long all of them certainly last.
func (l locks) left() time.Duration {
	least := holdfast.Forever
	for _, h := range l {
		least = min(least, h.Left())
	}
	return least
}

// extend sends the guard the time until which the locks certainly last. It reads the
// clock first, so that time that passes between the two readings shortens the lease.
func (l locks) extend(g *guard.Guard) {
	now := guard.Now()
	if left := l.left(); left > 0 {
		g.Extend(now + left)
	}
}

// lost returns the lock that was lost, or the one that is next to be.
func (l locks) lost() *holdfast.Hold {
	first := l[0]
	for _, h := range l {
		if h.Context().Err() != nil {
			return h
		}
		if h.Left() < first.Left() {
			first = h
		}
	}
	return first
}

// losses returns a channel that is closed when the first of them is lost.
func (l locks) losses() <-chan struct{} {
	lost := make(chan struct{})
	var once sync.Once
	for _, h := range l {
		context.AfterFunc(h.Context(), func() { once.Do(func() { close(lost) }) })
	}
	return lost
}

// wanted returns a channel that delivers each lock that others wait for, once.
func (l locks) wanted() <-chan *holdfast.Hold {
	wanted := make(chan *holdfast.Hold, len(l))
	for _, h := range l {
		go func() {
			select {
			case <-h.Wanted():
				wanted <- h
			case <-h.Context().Done():
			}
		}()
	}
	return wanted
}

// tokens returns the fencing tokens as a JSON object, by resource.
func (l locks) tokens() string {
	tokens := make(map[string]uint64)
	for _, h := range l {
		tokens[h.Resource()] = h.Token()
	}
	var text strings.Builder
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false) // the system limits the length of a variable
	if err := to.Encode(tokens); err != nil {
		panic(err) // a map of strings to numbers has JSON
	}
	return strings.TrimSuffix(text.String(), "\n")
}
