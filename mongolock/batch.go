package mongolock

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// found is a document that was looked for, or why it cannot be understood.
type found struct {
	document
	there bool
	err   error
}

// look reads the documents of resources.
func (s *Store) look(ctx context.Context, resources []string) (map[string]found, error) {
	cursor, err := s.coll.Find(ctx, obj(resourceField, obj("$in", resources)),
		options.Find().SetProjection(seen).SetCollation(exactly))
	if err != nil {
		return nil, s.wrap(err)
	}
	defer cursor.Close(context.WithoutCancel(ctx))
	docs := make(map[string]found, len(resources))
	for cursor.Next(ctx) {
		d, err := decode(cursor.Current)
		if err == nil && !d.timed {
			err = s.unusable(tellsNoTime, nil)
		}
		docs[d.record.Resource] = found{document: d, there: true, err: err}
	}
	return docs, s.wrap(cursor.Err())
}

// apply sends an update for each ask in one bulk write and returns how many
// changed their document. The reply does not say which. failed are those that the
// server could not evaluate. What it did not decide is sent again.
func (s *Store) apply(ctx context.Context, p statement, resources []string, asks []bson.D) (changed int, failed map[int]error, err error) {
	open := make([]int, len(asks))
	for i := range open {
		open[i] = i
	}
	for try := 0; len(open) > 0; try++ {
		if try > 0 {
			if err := backOff(ctx, try); err != nil {
				return 0, nil, err
			}
		}
		models := make([]mongo.WriteModel, len(open))
		for i, at := range open {
			models[i] = mongo.NewUpdateOneModel().SetFilter(named(resources[at])).SetUpdate(p.of(asks[at])).SetCollation(exactly)
		}
		res, err := s.coll.BulkWrite(ctx, models, options.BulkWrite().SetOrdered(false))
		var bulk mongo.BulkWriteException
		if err != nil && (!errors.As(err, &bulk) || bulk.WriteConcernError != nil || res == nil) {
			return 0, nil, s.wrap(err)
		}
		changed += int(res.ModifiedCount)
		var again []int
		failed = make(map[int]error)
		for _, e := range bulk.WriteErrors {
			if at := open[e.Index]; e.Code == codeWriteConflict && try < maxTries {
				again = append(again, at)
			} else {
				failed[at] = e
			}
		}
		open = again
	}
	return changed, failed, nil
}

// Renew implements driver.Store.
//
// It takes one round trip if all are renewed, which a hold's document shows by
// changing. Else the documents are read, which takes another: a hold that is
// live then was live before, for no hold comes back to life, and so its renewal
// took place, unless the server says that it failed.
func (s *Store) Renew(ctx context.Context, qs []driver.RenewRequest) ([]driver.RenewResult, error) {
	if err := ctx.Err(); err != nil || len(qs) == 0 {
		return nil, err
	}
	resources, asks := make([]string, len(qs)), make([]bson.D, len(qs))
	for i, q := range qs {
		resources[i] = q.Resource
		asks[i] = append(refAsk(q.HoldRef), obj("ttl", millis(q.TTL), "exact", q.Exact)...)
	}
	changed, failed, err := s.apply(ctx, renewOne, resources, asks)
	if err != nil {
		return nil, err
	}
	results := make([]driver.RenewResult, len(qs))
	for i := range results {
		results[i].Left = driver.Unknown
	}
	if changed == len(qs) {
		return results, nil
	}
	docs, err := s.look(ctx, resources)
	if err != nil {
		return nil, err
	}
	for i, q := range qs {
		results[i] = renewed(docs[q.Resource], q, failed[i])
	}
	return results, nil
}

// renewed is what the document says of a renewal.
func renewed(f found, q driver.RenewRequest, failed error) driver.RenewResult {
	unknown := driver.RenewResult{Left: driver.Unknown, Err: f.err}
	if f.err != nil {
		return unknown
	}
	// To renew it for a moment, exactly, would succeed: it is live and not given up.
	moment := driver.RenewRequest{HoldRef: q.HoldRef, TTL: 1}
	if _, r := model.Renew(f.record, f.now, moment); r.Err != nil || failed == nil {
		return r
	}
	unknown.Err = fmt.Errorf("renewal of %q: %w", q.Resource, failed)
	return unknown
}

// Release implements driver.Store.
//
// One release takes one round trip if the hold was there, which its document
// shows by changing. For more than one the documents are read first, for the
// reply does not say which of them changed; only what is there is released.
func (s *Store) Release(ctx context.Context, qs []driver.ReleaseRequest) ([]driver.ReleaseResult, error) {
	if err := ctx.Err(); err != nil || len(qs) == 0 {
		return nil, err
	}
	results := make([]driver.ReleaseResult, len(qs))
	send, at := qs, []int{0} // send[i] is qs[at[i]]
	if len(qs) > 1 {
		docs, err := s.look(ctx, resourcesOf(qs))
		if err != nil {
			return nil, err
		}
		send, at = there(docs, qs, results)
	}
	if len(send) == 0 {
		return results, nil
	}
	changed, failed, err := s.releaseAll(ctx, send)
	if err != nil {
		return nil, err
	}
	if changed == len(send) {
		for _, i := range at {
			results[i].Found = true
		}
		return results, nil
	}
	docs, err := s.look(ctx, resourcesOf(send))
	if err != nil {
		return nil, err
	}
	for i, q := range send {
		results[at[i]].Found = len(qs) > 1 // it was when the documents were read
		results[at[i]].Err = remains(docs[q.Resource], q, failed[i])
	}
	return results, nil
}

// there chooses the holds that are there, and where they are among the requests.
// Of damaged documents it notes the error.
func there(docs map[string]found, qs []driver.ReleaseRequest, results []driver.ReleaseResult) (send []driver.ReleaseRequest, at []int) {
	for i, q := range qs {
		f := docs[q.Resource]
		if results[i].Err = f.err; f.err != nil {
			continue
		}
		var is bool
		if f.record, is = model.Release(f.record, f.now, q); is {
			docs[q.Resource] = f // so that a hold that comes twice is found once
			send, at = append(send, q), append(at, i)
		}
	}
	return send, at
}

// remains is the error of a release that may have changed nothing. A hold that
// came in between is no error: it was not there when the release was.
func remains(f found, q driver.ReleaseRequest, failed error) error {
	if f.err != nil || failed == nil {
		return f.err
	}
	if _, is := model.Release(f.record, f.now, q); is {
		return fmt.Errorf("release of %q: %w", q.Resource, failed)
	}
	return nil
}

func resourcesOf(qs []driver.ReleaseRequest) []string {
	names := make([]string, len(qs))
	for i, q := range qs {
		names[i] = q.Resource
	}
	return names
}

func (s *Store) releaseAll(ctx context.Context, qs []driver.ReleaseRequest) (int, map[int]error, error) {
	asks := make([]bson.D, len(qs))
	for i, q := range qs {
		asks[i] = append(refAsk(q.HoldRef), obj("after", q.After.Milliseconds())...)
	}
	return s.apply(ctx, releaseOne, resourcesOf(qs), asks)
}

func refAsk(ref driver.HoldRef) bson.D {
	return obj("lockId", ref.LockID, "holdId", ref.HoldID.String(), "token", int64(ref.Token))
}
