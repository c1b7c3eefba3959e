package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// renewalsPerBatch is how many renewals the Client sends at once.
const renewalsPerBatch = 500

// commands records the sent commands.
type commands struct {
	mu    sync.Mutex
	names []string
	bytes int
}

func (c *commands) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.names, c.bytes = append(c.names, e.CommandName), c.bytes+len(e.Command)
	}}
}

// take returns the commands since the last call of take.
func (c *commands) take() (names []string, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names, bytes = c.names, c.bytes
	c.names, c.bytes = nil, 0
	return names, bytes
}

// measureMongoCommands counts the commands of operations.
func measureMongoCommands(ctx context.Context, _ string) []result {
	var sent commands
	db := openMongo(ctx, sent.monitor())
	defer finish(db.close)
	client, store, closeLocks := db.lockIn(ctx, "locks")
	defer finish(closeLocks)

	var results []result
	count := func(what string, do func() error) {
		sent.take()
		if err := do(); err != nil {
			failf("%s: %w", what, err)
		}
		names, bytes := sent.take()
		slices.Sort(names)
		results = append(results, result{
			What:   "MongoDB, commands of " + what,
			Value:  float64(len(names)),
			Limit:  1,
			Detail: fmt.Sprintf("%s, of %.1f kB together", strings.Join(slices.Compact(names), ", "), float64(bytes)/1000),
		})
	}
	var h *holdfast.Hold
	lock := func() (err error) {
		h, err = client.Lock(ctx, "resource", nil)
		return err
	}
	refused := func() error {
		if _, err := client.TryLock(ctx, "resource", nil); !errors.Is(err, holdfast.ErrHeld) {
			return fmt.Errorf("want a refusal: %w", err)
		}
		return nil
	}
	renewals := holdMany(ctx, store, 0)
	count("an acquire of a new resource", lock)
	count("an acquire that is refused", refused)
	count("a release", func() error { return h.Unlock(ctx) })
	count("an acquire", lock)
	count(fmt.Sprintf("%d renewals", renewalsPerBatch), func() error { return renew(ctx, store, renewals) })
	return results
}

// holdMany acquires a batch of resources, numbered from from, and returns their renewals.
func holdMany(ctx context.Context, store driver.Store, from int) []driver.RenewRequest {
	renewals := make([]driver.RenewRequest, renewalsPerBatch)
	for i := range renewals {
		q := driver.AcquireRequest{
			Resource: fmt.Sprintf("batch-%d", from+i), LockID: driver.NewHoldID().String(), HoldID: driver.NewHoldID(), TTL: time.Hour,
		}
		g := must(store.Acquire(ctx, q))
		renewals[i] = driver.RenewRequest{TTL: time.Hour, HoldRef: driver.HoldRef{
			Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID, Token: g.Token,
		}}
	}
	return renewals
}
