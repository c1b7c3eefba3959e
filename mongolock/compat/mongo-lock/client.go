package lock

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/backoff"
	"github.com/holdfast-go/holdfast/internal/quote"
	"github.com/holdfast-go/holdfast/mongolock"
)

// Client locks in one collection. All methods may be called concurrently. It has
// no goroutines and needs no closing.
type Client struct {
	store *mongolock.Store
	ready atomic.Bool // the indexes were found in place
}

// NewClient returns a Client of the collection. It sends nothing: the first use creates
// missing indexes, and fails if it cannot create the unique one. Writes are acknowledged
// by the majority, whatever concerns the collection was opened with.
func NewClient(collection *mongo.Collection) *Client {
	return &Client{store: mongolock.New(collection, &mongolock.Options{
		Poll:          true, // these functions do not wait, so they need no wake-ups
		OwnLimits:     true, // maxConcurrent of other locks does not matter
		ExactRenewals: true, // a renewal may shorten a TTL
	})}
}

// CreateIndexes creates missing indexes. Without the index on resource nothing can be
// locked: if it cannot be created, the error wraps driver.ErrUnusable and gives the
// reason.
func (c *Client) CreateIndexes(ctx context.Context) error {
	if err := c.init(ctx); err != nil {
		return wrap("create indexes", "", err)
	}
	return nil
}

func (c *Client) init(ctx context.Context) error {
	err := c.store.Init(ctx)
	if err == nil {
		c.ready.Store(true)
	}
	return err
}

// check returns an error if the ctx has ended, and creates the indexes once. Simultaneous
// checks do no harm. After a failure the next use checks again.
func (c *Client) check(ctx context.Context) error {
	if err := ctx.Err(); err != nil || c.ready.Load() {
		return err
	}
	return c.init(ctx)
}

// XLock locks the resource exclusively for the lockId. It does not wait: ErrAlreadyLocked
// means that there is a lock, maybe of the same lockId. After any other error the server
// may have granted a lock without the answer arriving. XLock releases it: it retries for
// five seconds if the server does not answer, and for a second after the first answer if
// the request may still arrive. To be sure, Unlock the lockId.
func (c *Client) XLock(ctx context.Context, resource, lockId string, ld LockDetails) error {
	return c.lock(ctx, resource, lockId, ld, driver.Exclusive, 0)
}

// SLock is XLock for a lock that other lockIds may share, as long as there are fewer than
// maxConcurrent locks. A negative maxConcurrent means no limit; 0 means ErrAlreadyLocked.
// A lockId can have only one lock of a resource at a time.
func (c *Client) SLock(ctx context.Context, resource, lockId string, ld LockDetails, maxConcurrent int) error {
	return c.lock(ctx, resource, lockId, ld, driver.Shared, maxConcurrent)
}

func (c *Client) lock(ctx context.Context, resource, lockID string, ld LockDetails, mode driver.Mode, limit int) error {
	q := driver.AcquireRequest{
		Resource: resource, LockID: lockID, HoldID: newHoldID(), Mode: mode, TTL: driver.Forever,
		Limit:   min(max(limit, 0), driver.MaxLimit),
		Details: driver.Details{Owner: ld.Owner, Host: ld.Host, Comment: ld.Comment},
	}
	var err error
	if ld.TTL != 0 {
		q.TTL, err = seconds(ld.TTL)
	}
	if err == nil {
		err = q.Validate()
	}
	if err == nil {
		err = c.check(ctx)
	}
	if err != nil {
		return wrap("lock", resource, err)
	}
	if mode == driver.Shared && limit == 0 {
		return ErrAlreadyLocked
	}
	_, err = c.store.Acquire(ctx, q)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, driver.ErrHeld):
		return ErrAlreadyLocked
	case !driver.Definite(err):
		c.giveBack(ctx, q, err)
	}
	return wrap("lock", resource, err)
}

// patience is how long giving back a lock may take, late how long an unanswered request
// may still arrive once the server answers again, and pause the wait after the first try.
const (
	patience = 5 * time.Second
	late     = time.Second
	pause    = 10 * time.Millisecond
)

// giveBack releases a lock that may have been granted although no answer came. It would
// block all clients, including the caller's next try. The hold ID names this try alone,
// so repeats release nothing else.
//
// If a request got no answer because of the network or a time-out, it may arrive after
// the first release, because the network repeats lost data. The time for that (late)
// begins with the first answer to a release: before, the network may have been down.
func (c *Client) giveBack(ctx context.Context, q driver.AcquireRequest, failed error) {
	server := mongo.ServerError(nil)
	stray := !errors.As(failed, &server) || mongo.IsNetworkError(failed) || mongo.IsTimeout(failed)
	var answered time.Time
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	ref := driver.HoldRef{Resource: q.Resource, LockID: q.LockID, HoldID: q.HoldID} // the token is not known
	for wait := pause; ; wait = min(2*wait, time.Second) {
		results, err := c.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: ref}})
		if err == nil {
			err = results[0].Err
		}
		switch {
		case driver.Definite(err), err == nil && (results[0].Found || !stray):
			return
		case err != nil:
		case answered.IsZero():
			answered = time.Now()
		case time.Since(answered) >= late:
			return
		}
		if backoff.Wait(ctx, wait) != nil {
			return // the caller gets the error of the acquire
		}
	}
}

// newHoldID returns an ObjectID. It is unique, and larger than the earlier ones of this
// process.
func newHoldID() driver.HoldID { return driver.HoldID(bson.NewObjectID()) }

// seconds returns a TTL of n seconds.
func seconds(n uint) (time.Duration, error) {
	if uint64(n) > uint64(driver.MaxTTL/time.Second) {
		return 0, fmt.Errorf("%w: TTL of %d s is above 100 years; 0 is without end", driver.ErrInvalid, n)
	}
	return time.Duration(n) * time.Second, nil
}

// wrap adds the operation and the name to an error.
func wrap(what, name string, err error) error {
	if name == "" {
		return fmt.Errorf("mongo-lock: %s: %w", what, err)
	}
	return fmt.Errorf("mongo-lock: %s %s: %w", what, quote.Name(name), err)
}
