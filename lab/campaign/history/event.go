// Package history is what the processes of a fault campaign saw of their locks: each
// call before it is made and each answer after it came, on a clock that all processes
// of a machine share. It does not judge what they saw.
package history

import (
	"slices"
	"time"
)

// Kind is what an Event is about.
type Kind string

// The kinds. The first three are requests to a store. Believe is a holder that goes by
// its lock, until Until or until the answer: then it knows better, or has it no more.
// Wait is a Lock that was to give up by Until. Write is one of the data that the lock
// protects, with its token; it is Lost if the place that was written to refused it.
const (
	Acquire Kind = "acquire"
	Renew   Kind = "renew"
	Release Kind = "release"
	Believe Kind = "believe"
	Wait    Kind = "wait"
	Write   Kind = "write"
)

// Outcome is what became of it.
type Outcome string

// The outcomes. Done is a grant, a renewal, a release, a lock. What has no answer at
// all, because its process died, is Unknown too.
const (
	Done    Outcome = "done"
	Held    Outcome = "held"
	Lost    Outcome = "lost"
	Unknown Outcome = "unknown"
)

// Forever is a TTL without an end.
const Forever = time.Duration(1<<63 - 1)

// Interval is a time that began and ended, since the machine has started.
type Interval struct{ From, To time.Duration }

// Event is a call and its answer.
type Event struct {
	Process  int    `json:"process"`
	Kind     Kind   `json:"kind"`
	Resource string `json:"resource"`
	Register string `json:"register,omitempty"` // that was written to
	LockID   string `json:"lock_id"`
	HoldID   string `json:"hold_id,omitempty"`
	Token    uint64 `json:"token,omitempty"`
	Shared   bool   `json:"shared,omitempty"`
	Limit    int    `json:"limit,omitempty"` // of shared holds; 0: none
	// TTL is what is asked for; Delay is the takeover delay.
	TTL   time.Duration `json:"ttl,omitempty"`
	Delay time.Duration `json:"delay,omitempty"`
	// Called and Answered enclose the moment at which the store decided, since the
	// machine has started. Of what is Unknown, Answered is when nobody waited for the
	// answer any more.
	Called   time.Duration `json:"called"`
	Answered time.Duration `json:"answered"`
	Until    time.Duration `json:"until,omitempty"`
	Outcome  Outcome       `json:"outcome"`
	// BySelf says that the lock ID that was refused holds the resource itself.
	BySelf bool `json:"by_self,omitempty"`
	// Place is that of an acquire that waits, or the one that a release gives up. Fair says
	// that nobody may pass it.
	Place string `json:"place,omitempty"`
	Fair  bool   `json:"fair,omitempty"`
	// Position is that of a refusal: how many are ahead in the queue, or -1. Behind says
	// that there are some.
	Position int  `json:"position,omitempty"`
	Behind   bool `json:"behind,omitempty"`
	// Why is the error of what is not Done.
	Why string `json:"why,omitempty"`
}

// Resources are those that the events are about, sorted.
func Resources(events []Event) (names []string) {
	for _, e := range events {
		names = append(names, e.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
