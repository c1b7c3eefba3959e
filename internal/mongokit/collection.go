// Package mongokit has the code that Holdfast's stores in MongoDB share: it builds
// statements, sends them until the server has decided them, and classifies errors. Only
// KindOf depends on the layout of documents.
package mongokit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
)

// maxTries is how often a statement is sent that the server did not decide because of a
// simultaneous one.
const maxTries = 12

// Collection is a collection that keeps locks. Its methods send all commands, and never
// in the session or transaction of the caller's ctx, see withoutSession.
type Collection struct {
	coll     *mongo.Collection
	owned    bool // Close disconnects the client
	closing  sync.Once
	closeErr error
}

// New returns the collection with the settings that locks need, whatever its own are:
// reads from the primary, writes acknowledged by the majority and journaled, and the
// driver's default encoding of values.
func New(coll *mongo.Collection) *Collection {
	journal := true
	return &Collection{coll: coll.Clone(options.Collection().
		SetReadPreference(readpref.Primary()).
		SetReadConcern(readconcern.Local()).
		SetWriteConcern(&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}).
		SetRegistry(bson.NewRegistry()).
		SetBSONOptions(&options.BSONOptions{}))}
}

// Own makes Close disconnect the client of the collection.
func (c *Collection) Own() { c.owned = true }

// Close disconnects the client if Own was called. Further calls return the same error.
func (c *Collection) Close() error {
	c.closing.Do(func() {
		if c.owned {
			c.closeErr = c.Wrap(c.coll.Database().Client().Disconnect(context.Background()))
		}
	})
	return c.closeErr
}

// FullName returns the names of database and collection, with a dot between them.
func (c *Collection) FullName() string { return c.coll.Database().Name() + "." + c.coll.Name() }

// Undecided reports whether another client interfered. A duplicate key means that it
// created the document at the same time. A write conflict means the same on other servers
// that speak the protocol of MongoDB.
func Undecided(err error) bool {
	return mongo.IsDuplicateKeyError(err) || HasCode(err, CodeWriteConflict)
}

// Retry sends a statement until the server decides it, at most maxTries times.
func Retry(ctx context.Context, send func() error) error {
	var err error
	for try := range maxTries {
		if try > 0 {
			if ended := backOff(ctx, try); ended != nil {
				return ended
			}
		}
		err = send()
		if !Undecided(err) {
			return err
		}
	}
	return fmt.Errorf("the server did not decide in %d tries: %w", maxTries, err)
}

// backOff waits before a statement is sent again. It returns the error of ctx if that
// ends.
func backOff(ctx context.Context, try int) error {
	return backoff.Wait(ctx, rand.N(time.Millisecond<<min(try, 6)))
}

// Applied is the outcome of a bulk write. The server does not reply which writes changed
// something.
type Applied struct {
	Matched int           // writes that found a document
	Changed int           // writes that changed or deleted one
	Failed  map[int]error // errors of the writes that the server could not evaluate, by index
}

// Apply sends writes that insert nothing in one bulk write. It repeats writes that the
// server did not decide.
func (c *Collection) Apply(ctx context.Context, writes []mongo.WriteModel) (done Applied, err error) {
	open := make([]int, len(writes))
	for i := range open {
		open[i] = i
	}
	done.Failed = make(map[int]error)
	for try := 0; len(open) > 0; try++ {
		if try > 0 {
			if err := backOff(ctx, try); err != nil {
				return Applied{}, err
			}
		}
		models := make([]mongo.WriteModel, len(open))
		for i, at := range open {
			models[i] = writes[at]
		}
		res, err := send(ctx, func(ctx context.Context) (*mongo.BulkWriteResult, error) {
			return c.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		})
		var bulk mongo.BulkWriteException
		if HasCode(err, CodeWriteConflict) && !errors.As(err, &bulk) && try < maxTries {
			continue // Matched and Changed answer for all writes
		}
		if err != nil && (!errors.As(err, &bulk) || bulk.WriteConcernError != nil || res == nil) {
			return Applied{}, c.Wrap(err)
		}
		done.Matched += int(res.MatchedCount + res.DeletedCount)
		done.Changed += int(res.ModifiedCount + res.DeletedCount)
		open = undecided(open, bulk.WriteErrors, try < maxTries, done.Failed)
	}
	return done, nil
}

// undecided returns the open writes to repeat. It adds the errors of the others to
// failed, which may have errors of earlier tries.
func undecided(open []int, errs []mongo.BulkWriteError, patient bool, failed map[int]error) (again []int) {
	for _, e := range errs {
		if at := open[e.Index]; e.Code == CodeWriteConflict && patient {
			again = append(again, at)
		} else {
			failed[at] = e
		}
	}
	return again
}

// Millis returns a duration for the server, in ms; null stands for Forever.
func Millis(d time.Duration) any {
	if d == driver.Forever {
		return nil
	}
	return d.Milliseconds()
}
