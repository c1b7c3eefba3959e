package mongokit

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// Found is a document that was looked for, or why it cannot be understood.
type Found struct {
	Record model.Record
	Now    model.Time
	Err    error
}

// Batch renews and releases holds, those of a resource by one write that the
// server decides: the document changes if, and only if, one of the holds is renewed
// or released.
type Batch struct {
	Collection *Collection
	// Look reads the documents of resources. Those that are not there are left out.
	Look func(ctx context.Context, resources []string) (map[string]Found, error)
	// Renewal and Ending write what is asked about one resource: at most Together
	// requests, of which no two have the same lock ID.
	Renewal  func([]driver.RenewRequest) mongo.WriteModel
	Ending   func([]driver.ReleaseRequest) mongo.WriteModel
	Together int
}

// Renew is that of a driver.Store.
//
// It takes one round trip if all are renewed, which documents show by changing if
// each has one of the holds. Else they are read, which takes another: a hold that is
// live then was live before, for no hold comes back to life, and so its renewal
// took place, unless the server says that it failed.
func (b *Batch) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := ctx.Err(); err != nil || len(qs) == 0 {
		return nil, err
	}
	all, resources := grouped(qs, renewRef, b.Together)
	changed, failed, err := b.Collection.Apply(ctx, all.writes(b.Renewal))
	if err != nil {
		return nil, err
	}
	results := make([]driver.RenewResult, len(qs))
	for i := range results {
		results[i].Left = driver.Unknown
	}
	if all.told(changed) {
		return results, nil
	}
	docs, err := b.Look(ctx, resources)
	if err != nil {
		return nil, err
	}
	for i, q := range qs {
		results[i] = renewed(docs[q.Resource], q, failed[all.of[i]])
	}
	return results, nil
}

// renewed is what the document says of a renewal.
func renewed(f Found, q driver.RenewRequest, failed error) driver.RenewResult {
	unknown := driver.RenewResult{Left: driver.Unknown, Err: f.Err}
	if f.Err != nil {
		return unknown
	}
	// To renew it for a moment, exactly, would succeed: it is live and not given up.
	moment := driver.RenewRequest{HoldRef: q.HoldRef, TTL: 1}
	if _, r := model.Renew(f.Record, f.Now, moment); r.Err != nil || failed == nil {
		return r
	}
	unknown.Err = fmt.Errorf("renewal of %q: %w", q.Resource, failed)
	return unknown
}

// Release is that of a driver.Store.
//
// One release takes one round trip if the hold was there, which its document
// shows by changing. For more than one the documents are read first, for the
// reply does not say which of them changed; only what is there is released. Where
// a hold was not, or several of a document were, the document tells whether the
// lock ID has one of an old program's.
func (b *Batch) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := ctx.Err(); err != nil || len(qs) == 0 {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	send, at := qs, []int{0} // send[i] is qs[at[i]]
	if len(qs) > 1 {
		docs, err := b.Look(ctx, resourcesOf(qs))
		if err != nil {
			return nil, err
		}
		send, at = there(docs, qs, results)
	}
	if len(send) == 0 {
		return results, nil
	}
	all, resources := grouped(send, releaseRef, b.Together)
	changed, failed, err := b.Collection.Apply(ctx, all.writes(b.Ending))
	if err != nil {
		return nil, err
	}
	if all.told(changed) {
		for _, i := range at {
			results[i].Found = true
		}
		return results, nil
	}
	docs, err := b.Look(ctx, resources)
	if err != nil {
		return nil, err
	}
	for i, q := range send {
		r := &results[at[i]]
		r.Err = undone(docs[q.Resource], q, failed[all.of[i]])
		r.Remains = remains(docs[q.Resource], q)
		r.Found = len(qs) > 1 && !r.Remains // it was when the documents were read
	}
	return results, nil
}

// remains: the lock ID has a live hold of an old program's, which has no ID. Where
// that is not what the ref means, an old program has renewed the hold that it does
// mean, or taken the resource after it.
func remains(f Found, q driver.ReleaseRequest) bool {
	return !q.HoldID.IsZero() && slices.ContainsFunc(f.Record.Holds, func(h model.Hold) bool {
		return h.LockID == q.LockID && h.HoldID.IsZero() && h.End > f.Now
	})
}

// there chooses the holds that are there, and where they are among the requests.
// Of damaged documents it notes the error.
func there(docs map[string]Found, qs []driver.ReleaseRequest, results []driver.ReleaseResult) (send []driver.ReleaseRequest, at []int) {
	for i, q := range qs {
		f := docs[q.Resource]
		if results[i].Err = f.Err; f.Err != nil {
			continue
		}
		results[i].Remains = remains(f, q)
		var is bool
		if f.Record, is = model.Release(f.Record, f.Now, q); is {
			docs[q.Resource] = f // so that a hold that comes twice is found once
			send, at = append(send, q), append(at, i)
		}
	}
	return send, at
}

// undone is the error of a release that may have changed nothing. A hold that
// came in between is no error: it was not there when the release was.
func undone(f Found, q driver.ReleaseRequest, failed error) error {
	if f.Err != nil || failed == nil {
		return f.Err
	}
	if _, is := model.Release(f.Record, f.Now, q); is {
		return fmt.Errorf("release of %q: %w", q.Resource, failed)
	}
	return nil
}

// Blame looks whether a statement failed because the resource's document is
// damaged.
func (b *Batch) Blame(ctx context.Context, resource string, err error) error {
	var command mongo.CommandError
	if Passes(err) || !errors.As(err, &command) {
		return b.Collection.Wrap(err)
	}
	docs, lookErr := b.Look(ctx, []string{resource})
	if lookErr == nil && errors.Is(docs[resource].Err, driver.ErrDamaged) {
		return docs[resource].Err
	}
	return b.Collection.Wrap(err)
}

func renewRef(q driver.RenewRequest) driver.HoldRef     { return q.HoldRef }
func releaseRef(q driver.ReleaseRequest) driver.HoldRef { return q.HoldRef }

func resourcesOf(qs []driver.ReleaseRequest) []string {
	names := make([]string, len(qs))
	for i, q := range qs {
		names[i] = q.Resource
	}
	return names
}

// RefAsk is what a statement is asked for of the hold that it is about.
func RefAsk(ref driver.HoldRef) bson.D {
	return Obj("lockId", ref.LockID, "holdId", ref.HoldID.String(), "token", int64(ref.Token))
}
