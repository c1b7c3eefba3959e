package engines

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver/drivertest"
)

// MongoClock is the server's clock in one database. On the emulator it can be set; on a real
// server it is the machine's clock, and time passes by itself.
type MongoClock struct {
	db *mongo.Database
	mu sync.Mutex
	at time.Time // zero: real
}

// NewMongoClock returns the clock of the database. On the emulator it does not run until Pass.
func NewMongoClock(t testing.TB, db *mongo.Database) *MongoClock {
	t.Helper()
	c := &MongoClock{db: db}
	if MongoDB(t).Emulated {
		c.at = time.Now().Truncate(time.Millisecond)
		if err := SetMongoClock(t.Context(), db, c.at); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// Set reports whether the clock can be set.
func (c *MongoClock) Set() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.at.IsZero()
}

// Now returns the time, for clients with a correct clock. A settable clock has whole
// milliseconds, like a server's.
func (c *MongoClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at.IsZero() {
		return time.Now()
	}
	return c.at.Truncate(time.Millisecond)
}

// Pass returns when that much time has passed.
func (c *MongoClock) Pass(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() {
		c.at = c.at.Add(d)
		return SetMongoClock(ctx, c.db, c.at)
	}
	began, err := c.serverTime(ctx)
	if err != nil {
		return err
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		now, err := c.serverTime(ctx)
		if err != nil || now.Sub(began) > d {
			return err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Drive gives a harness of the conformance suite control of the clock. With a real clock the
// test is skipped.
func (c *MongoClock) Drive(t *testing.T, h *drivertest.Harness) *drivertest.Harness {
	t.Helper()
	if !c.Set() {
		t.Skip("the clock of a real server cannot be set")
	}
	h.Now = c.Now
	h.Advance = func(d time.Duration) {
		if err := c.Pass(t.Context(), d); err != nil {
			t.Error(err)
		}
	}
	return h
}

func (c *MongoClock) serverTime(ctx context.Context) (time.Time, error) {
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := c.db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello)
	return hello.LocalTime, err
}
