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

// Found is a document that was read, or why it cannot be understood.
type Found struct {
	Record model.Record
	Now    model.Time
	Err    error
}

// Batch renews and releases holds. One write renews or releases those of a resource,
// and the server decides it: the document changes if, and only if, one of the holds
// is renewed or released.
type Batch struct {
	Collection *Collection
	// Look reads the documents of resources. It leaves out those that do not exist.
	Look func(ctx context.Context, resources []string) (map[string]Found, error)
	// Renewal and Ending return the write for the requests about one resource: at
	// most Together, with a lock ID each.
	Renewal  func([]driver.RenewRequest) mongo.WriteModel
	Ending   func([]driver.ReleaseRequest) mongo.WriteModel
	Together int
}

// Renew renews the holds as a driver.Store does.
//
// It takes one round trip if all holds are renewed and each has its own document:
// all documents change then. Otherwise Renew reads the documents, in another round
// trip. A hold that is live then was live before, because no hold becomes live again. So
// its renewal took place, unless the server reports that it failed.
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
	if all.allChanged(changed) {
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

// renewed returns what the document says about a renewal.
func renewed(f Found, q driver.RenewRequest, failed error) driver.RenewResult {
	unknown := driver.RenewResult{Left: driver.Unknown, Err: f.Err}
	if f.Err != nil {
		return unknown
	}
	// If a renewal to almost nothing would succeed, the hold is live and not released.
	moment := driver.RenewRequest{HoldRef: q.HoldRef, TTL: 1}
	if _, r := model.Renew(f.Record, f.Now, moment); r.Err != nil || failed == nil {
		return r
	}
	unknown.Err = fmt.Errorf("renewal of %q: %w", q.Resource, failed)
	return unknown
}

// Release releases the holds as a driver.Store does.
//
// A single release takes one round trip if the hold was there: its document changes.
// Several releases read the documents first, because the reply does not say which of
// them changed, and release only the holds that are there. If a hold was not there,
// or several were in one document, the document shows whether the lock ID has a hold
// of an old program.
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
		send, at = present(docs, qs, results)
	}
	if len(send) == 0 {
		return results, nil
	}
	all, resources := grouped(send, releaseRef, b.Together)
	changed, failed, err := b.Collection.Apply(ctx, all.writes(b.Ending))
	if err != nil {
		return nil, err
	}
	if all.allChanged(changed) {
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
		r.Err = releaseError(docs[q.Resource], q, failed[all.of[i]])
		r.Remains = remains(docs[q.Resource], q)
		r.Found = len(qs) > 1 && !r.Remains // it was when the documents were read
	}
	return results, nil
}

// remains reports whether the lock ID has a live hold of an old program, which has
// no hold ID. If the request names a hold ID, an old program has renewed that hold,
// or acquired the resource after it.
func remains(f Found, q driver.ReleaseRequest) bool {
	return !q.HoldID.IsZero() && slices.ContainsFunc(f.Record.Holds, func(h model.Hold) bool {
		return h.LockID == q.LockID && h.HoldID.IsZero() && h.End > f.Now
	})
}

// present returns the requests whose holds are there, and their indexes. It notes the
// errors of damaged documents.
func present(docs map[string]Found, qs []driver.ReleaseRequest, results []driver.ReleaseResult) (send []driver.ReleaseRequest, at []int) {
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

// releaseError returns the error of a release that may have changed nothing. A hold
// that was granted since is no error: it was not there at the time of the release.
func releaseError(f Found, q driver.ReleaseRequest, failed error) error {
	if f.Err != nil || failed == nil {
		return f.Err
	}
	if _, is := model.Release(f.Record, f.Now, q); is {
		return fmt.Errorf("release of %q: %w", q.Resource, failed)
	}
	return nil
}

// Explain returns the error of a statement: the document's, if that is damaged.
func (b *Batch) Explain(ctx context.Context, resource string, err error) error {
	var command mongo.CommandError
	if Transient(err) || !errors.As(err, &command) {
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

// RefAsk returns what a statement needs to find the hold that it changes.
func RefAsk(ref driver.HoldRef) bson.D {
	return Obj("lockId", ref.LockID, "holdId", ref.HoldID.String(), "token", int64(ref.Token))
}
