package history

import (
	"context"
	"time"
)

// Open is a hold of which there is no end.
type Open struct {
	Event // with which it began
	// Next is when another hold of the resource began that excludes it: one with a higher token,
	// if one of both is exclusive. It is zero if none did.
	Next time.Time
}

// Storage keeps the events of a Log. Append and KeepGaps are called by one goroutine, the other
// methods by several. Each may fail, or not return until its ctx is over, or never: the Log
// then goes on without it.
type Storage interface {
	// Append adds the events, all or none, and gives them rising numbers. It bounds what is
	// kept, also if there are no events: the oldest go first. It returns when what is kept
	// begins.
	Append(ctx context.Context, events []Event) (since time.Time, err error)
	// Open returns the holds of which there is no end.
	Open(ctx context.Context) ([]Open, error)
	// Events and Losses are those of Log; their limit is not 0.
	Events(ctx context.Context, q Query) ([]Event, error)
	Losses(ctx context.Context, since time.Time, limit int) ([]Event, error)
	// Lengths returns for how long the newest holds of the resource were held that are
	// Released or Gone, as far as that is known.
	Lengths(ctx context.Context, resource string, limit int) ([]time.Duration, error)
	// KeepGaps keeps these gaps in place of those before, and until when the history has all
	// but them.
	KeepGaps(ctx context.Context, gaps []Gap, until time.Time) error
	// Gaps returns what was kept last; until is zero if nothing was.
	Gaps(ctx context.Context) (gaps []Gap, until time.Time, err error)
	Close() error
}
