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

// Found is a document that was read, or the reason why it cannot be decoded.
type Found struct {
	Record model.Record
	Now    model.Time
	Err    error
	Hidden bool // more places may be ahead of the request than the record has
}

// Batch renews and releases holds. One write handles the holds of one resource. The
// server decides: the document changes if, and only if, one of the holds is renewed or
// released.
type Batch struct {
	Collection *Collection
	// Look reads the documents of resources. It leaves out missing documents.
	Look func(ctx context.Context, resources []string) (map[string]Found, error)
	// Renewal and Ending return the write for the requests about one resource: at most
	// Together requests, each with another lock ID.
	Renewal  func([]driver.RenewRequest) mongo.WriteModel
	Ending   func([]driver.ReleaseRequest) mongo.WriteModel
	Together int
	// Queued returns a write that matches the document of the resource if it may have
	// waiters, and changes nothing. Nil: the documents have no queue.
	Queued func(resource string) mongo.WriteModel
}

// Renew renews the holds as a driver.Store does.
//
// It takes one round trip if all holds are renewed, each has its own document and there
// are no waiters: then all documents change. Otherwise Renew reads the documents in a
// second round trip. A hold that is live then was live before, because no hold becomes
// live again. So it was renewed, unless the server reports that the renewal failed.
func (b *Batch) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := ctx.Err(); err != nil || len(qs) == 0 {
		return nil, err
	}
	all, resources := grouped(qs, renewRef, b.Together)
	writes := all.writes(b.Renewal)
	if b.Queued != nil && len(all.each) == len(qs) { // otherwise it reads the documents anyway
		for _, resource := range resources {
			writes = append(writes, b.Queued(resource))
		}
	}
	done, err := b.Collection.Apply(ctx, writes)
	if err != nil {
		return nil, err
	}
	results := make([]driver.RenewResult, len(qs))
	for i := range results {
		results[i].Left = driver.Unknown
	}
	complete := all.allChanged(done.Changed)
	if complete && done.Matched == done.Changed {
		return results, nil
	}
	docs, err := b.Look(ctx, resources)
	switch {
	case err != nil && complete:
		return results, nil // only the number of waiters is unknown
	case err != nil:
		return nil, err
	}
	for i, q := range qs {
		results[i] = Renewed(docs[q.Resource], q, done.Failed[all.of[i]])
	}
	return results, nil
}

// Renewed returns the result of a renewal, as the document shows it.
func Renewed(f Found, q driver.RenewRequest, failed error) driver.RenewResult {
	unknown := driver.RenewResult{Left: driver.Unknown, Err: f.Err}
	if f.Err != nil {
		return unknown
	}
	// If a renewal with the shortest TTL would succeed, the hold is live and not
	// released.
	moment := driver.RenewRequest{HoldRef: q.HoldRef, TTL: 1}
	if _, r := model.Renew(f.Record, f.Now, moment); r.Err != nil || failed == nil {
		return r
	}
	unknown.Err = fmt.Errorf("renewal of %q: %w", q.Resource, failed)
	return unknown
}

// Release releases the holds as a driver.Store does.
//
// A single release of a hold that exists takes one round trip: its document changes.
// Several releases read the documents first, because the reply does not say which
// documents changed, and release only the holds that exist. If a hold did not exist, or
// several were in one document, the document shows whether the lock ID has a hold of an
// old program.
//
// A request that only gives up a place never finds a hold. If it is the only request, the
// documents must have no queue: otherwise a change does not say whether a hold existed.
func (b *Batch) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := ctx.Err(); err != nil || len(qs) == 0 {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	send, at := qs, []int{0} // send[i] is qs[at[i]]
	if len(qs) > 1 {
		_, resources := grouped(qs, releaseRef, b.Together)
		docs, err := b.Look(ctx, resources)
		if err != nil {
			return nil, err
		}
		send, at = present(docs, qs, results)
	} else if OnlyPlace(qs[0]) {
		send = nil
	}
	if len(send) == 0 {
		return results, nil
	}
	all, resources := grouped(send, releaseRef, b.Together)
	done, err := b.Collection.Apply(ctx, all.writes(b.Ending))
	if err != nil {
		return nil, err
	}
	if all.allChanged(done.Changed) {
		for i := range send {
			results[at[i]].Found = len(qs) == 1 || results[at[i]].Found
		}
		return results, nil
	}
	docs, err := b.Look(ctx, resources)
	if err != nil {
		return nil, err
	}
	for i, q := range send {
		r := &results[at[i]]
		r.Err = releaseError(docs[q.Resource], q, done.Failed[all.of[i]])
		r.Remains = remains(docs[q.Resource], q)
		r.Found = r.Found && !r.Remains // it existed when the documents were read
	}
	return results, nil
}

// onlyExpired is the key of a ctx, see OnlyExpired.
type onlyExpired struct{}

// OnlyExpired returns a ctx under which package mongolock releases a hold only if it has
// expired when the server decides. The drop-in for mongo-lock needs it to unlock expired
// locks: a renewal may come between its look and the release.
func OnlyExpired(ctx context.Context) context.Context {
	return context.WithValue(ctx, onlyExpired{}, true)
}

// IsOnlyExpired reports whether OnlyExpired made the ctx.
func IsOnlyExpired(ctx context.Context) bool { return ctx.Value(onlyExpired{}) != nil }

// OnlyPlace reports whether the request gives up only a place, not a hold.
func OnlyPlace(q driver.ReleaseRequest) bool { return q.HoldID.IsZero() && !q.Place.IsZero() }

// Released returns the result that a release would have, as the document shows it.
func Released(f Found, q driver.ReleaseRequest) driver.ReleaseResult {
	if f.Err != nil {
		return driver.ReleaseResult{Err: f.Err}
	}
	_, found, _ := model.Release(f.Record, f.Now, q)
	return driver.ReleaseResult{Found: found, Remains: remains(f, q)}
}

// remains reports whether the lock ID has a live hold of an old program, which has
// no hold ID. If the request names a hold ID, an old program has renewed that hold,
// or acquired the resource after it.
func remains(f Found, q driver.ReleaseRequest) bool {
	return !q.HoldID.IsZero() && slices.ContainsFunc(f.Record.Holds, func(h model.Hold) bool {
		return h.LockID == q.LockID && h.HoldID.IsZero() && h.End > f.Now
	})
}

// present returns the requests whose holds or places exist, and their indexes. It sets
// Found in the results, and the errors of damaged documents.
func present(docs map[string]Found, qs []driver.ReleaseRequest, results []driver.ReleaseResult) (send []driver.ReleaseRequest, at []int) {
	for i, q := range qs {
		f := docs[q.Resource]
		if results[i] = Released(f, q); f.Err != nil {
			continue
		}
		before := f.Record.Touched
		if f.Record, _, _ = model.Release(f.Record, f.Now, q); f.Record.Touched != before {
			docs[q.Resource] = f // a hold that is requested twice is found once
			send, at = append(send, q), append(at, i)
		}
	}
	return send, at
}

// releaseError returns the error of a release that may have changed nothing. A hold that
// was granted since then is not an error: it did not exist at the time of the release.
func releaseError(f Found, q driver.ReleaseRequest, failed error) error {
	if f.Err != nil || failed == nil {
		return f.Err
	}
	if r, _, _ := model.Release(f.Record, f.Now, q); r.Touched != f.Record.Touched {
		return fmt.Errorf("release of %q: %w", q.Resource, failed)
	}
	return nil
}

// Explain returns the error of a statement, or that of the document if it is damaged.
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

// RefAsk returns the fields by which a statement finds the hold that it changes.
func RefAsk(ref driver.HoldRef) bson.D {
	return Obj("lockId", ref.LockID, "holdId", ref.HoldID.String(), "token", int64(ref.Token))
}
