package history

import (
	"context"
	"time"
)

// Batch is what is written at once.
type Batch struct {
	// Holds take the place of those with the same Number.
	Holds []Hold
	// Gaps take the place of those before.
	Gaps []Gap
	// Looked is when the last look at all of the store began of which everything is written.
	Looked time.Time
}

// Saved is what a Log needs of what another process has written.
type Saved struct {
	Bounds
	// Open are the holds without an end.
	Open []Hold
	// Last is the highest Number.
	Last   int64
	Gaps   []Gap
	Looked time.Time
}

// Storage keeps the holds of a Log. Write is called by one goroutine, Holds by several. Each may
// fail, or not return until its ctx is over, or never: the Log then goes on without it.
type Storage interface {
	Load(ctx context.Context) (Saved, error)
	// Write writes all of the batch or nothing. It bounds what is kept, also if there is nothing
	// new: of those who have most, the oldest goes first.
	Write(ctx context.Context, b Batch) (Bounds, error)
	// Holds returns those that the query chooses, whose limit is not 0, the newest first.
	Holds(ctx context.Context, q Query) ([]Hold, error)
	Close() error
}
