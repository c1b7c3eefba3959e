package history

import (
	"slices"
	"time"
)

// Kind is the kind of an Event.
type Kind string

// The kinds. The first three are requests to a store. Believe means that a holder relies on its
// lock, until Until or until the answer, whichever is earlier. Wait is a Lock that has to give
// up by Until. Write is a write of the protected data with the lock's token; it is Lost if the
// register refused it.
const (
	Acquire Kind = "acquire"
	Renew   Kind = "renew"
	Release Kind = "release"
	Believe Kind = "believe"
	Wait    Kind = "wait"
	Write   Kind = "write"
)

// Outcome is the result of a call.
type Outcome string

// The outcomes. Done is a grant, a renewal, a release or a lock. The outcome is also Unknown if
// there is no answer because the process died.
const (
	Done    Outcome = "done"
	Held    Outcome = "held"
	Lost    Outcome = "lost"
	Unknown Outcome = "unknown"
)

// Forever is a TTL without an end.
const Forever = time.Duration(1<<63 - 1)

// Interval is a period of time. Times count from the start of the machine.
type Interval struct{ From, To time.Duration }

// Event is a call and its answer.
type Event struct {
	Process  int    `json:"process"`
	Kind     Kind   `json:"kind"`
	Resource string `json:"resource"`
	Register string `json:"register,omitempty"` // the register of a write
	LockID   string `json:"lock_id"`
	HoldID   string `json:"hold_id,omitempty"`
	Token    uint64 `json:"token,omitempty"`
	Shared   bool   `json:"shared,omitempty"`
	Limit    int    `json:"limit,omitempty"` // of shared holds; 0: none
	// TTL is the requested TTL, Delay the takeover delay.
	TTL   time.Duration `json:"ttl,omitempty"`
	Delay time.Duration `json:"delay,omitempty"`
	// The store decided between Called and Answered. If the outcome is Unknown, Answered is
	// when the caller stopped waiting for the answer. Times count from the start of the
	// machine.
	Called   time.Duration `json:"called"`
	Answered time.Duration `json:"answered"`
	Until    time.Duration `json:"until,omitempty"`
	Outcome  Outcome       `json:"outcome"`
	// BySelf means that the refused lock ID itself holds the resource.
	BySelf bool `json:"by_self,omitempty"`
	// Place is the place of a waiting acquire, or the place that a release gives up. If Fair,
	// no other request may pass it.
	Place string `json:"place,omitempty"`
	Fair  bool   `json:"fair,omitempty"`
	// Position is the number of waiters ahead that a refusal reported, or -1. Behind means that
	// it reported waiters ahead.
	Position int  `json:"position,omitempty"`
	Behind   bool `json:"behind,omitempty"`
	// Why is the error, unless the outcome is Done.
	Why string `json:"why,omitempty"`
}

// Resources returns the resources of the events, sorted.
func Resources(events []Event) (names []string) {
	for _, e := range events {
		names = append(names, e.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
