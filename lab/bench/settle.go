package main

import (
	"context"
	"time"
)

// settled waits until ready returns true, and then until the store has had no call for a while:
// all waiters have their places.
func settled(ctx context.Context, store *counted, ready func() bool) error {
	const look, quiet = 10 * time.Millisecond, 200 * time.Millisecond
	calls, since := store.all(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(look):
		}
		if now := store.all(); now != calls || !ready() {
			calls, since = now, time.Now()
		}
		if time.Since(since) >= quiet {
			return nil
		}
	}
}
