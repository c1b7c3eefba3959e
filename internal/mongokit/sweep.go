package mongokit

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// chunk is the number of documents that a sweep changes in one round trip.
const chunk = 500

// anyDocument returns one document of the collection, or nil if it is empty.
func (c *Collection) anyDocument(ctx context.Context, projection any) (bson.Raw, error) {
	doc, err := send(ctx, func(ctx context.Context) (bson.Raw, error) {
		return c.coll.FindOne(ctx, bson.D{}, options.FindOne().SetProjection(projection)).Raw()
	})
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	return doc, c.Wrap(err)
}

// Kind returns the layout of the collection, as KindOf does. One document shows it,
// because the collection has only locks. ok is false if the collection is empty or the
// document fits any layout.
func (c *Collection) Kind(ctx context.Context) (name string, ok bool, err error) {
	doc, err := c.anyDocument(ctx, nil)
	if doc == nil {
		return "", false, err
	}
	name, ok = KindOf(doc)
	return name, ok, nil
}

// Clock returns the server's time. It needs a document to read the time with: ok is false
// if the collection is empty.
func (c *Collection) Clock(ctx context.Context) (now model.Time, ok bool, err error) {
	reply, err := c.anyDocument(ctx, Obj("_id", 0, NowField, "$$NOW"))
	if reply == nil {
		return 0, false, err
	}
	now, err = c.Now(reply)
	return now, err == nil, err
}

// Sweep describes how a store sweeps its collection. The server decides by its clock what
// has expired.
type Sweep struct {
	*Collection
	Look      bson.D // the projection of the documents that Decode reads
	Decode    func(bson.Raw) Found
	Collation *options.Collation
	// Idle matches the records that nobody has used since limit. Nil: the store deletes
	// no idle records.
	Idle func(limit, now model.Time) bson.D
	// Expired matches the documents whose holds may have expired.
	Expired func(now bson.DateTime) bson.D
	// Empty says that documents without a hold are deleted if Expired matches them.
	Empty bool
	// Drop returns the write that drops what has expired. found is valid during the call.
	Drop func(resource string, found bson.Raw) mongo.WriteModel
}

// Run sweeps. If a document changes in between, its former holds count as one. Run skips
// damaged documents, which an acquire reports.
func (s *Sweep) Run(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	now, ok, err := s.Clock(ctx)
	if err != nil || !ok {
		return total, err
	}
	most := q.Most
	if most == 0 {
		most = math.MaxInt
	}
	// Idle records go first: a record that loses a hold now is not idle.
	if limit := now - model.Time(q.Idle/time.Microsecond); s.Idle != nil && limit >= 0 {
		var tried int
		total.Records, tried, err = s.deleteIdle(ctx, s.Idle(limit, now), most)
		if total.More = tried == most; err != nil || total.More {
			return total, err
		}
		most -= tried
	}
	var writes []mongo.WriteModel
	var due driver.SweepResult // how many holds the writes drop
	flush := func() error {
		done, err := s.Apply(ctx, writes)
		if done.Changed < len(writes) {
			due = driver.SweepResult{Holds: done.Changed}
		}
		total.Holds, total.Records = total.Holds+due.Holds, total.Records+due.Records
		writes, due = writes[:0], driver.SweepResult{}
		return err
	}
	tried := 0
	for raw, err := range s.Scan(ctx, s.Expired(bson.DateTime(now/1000)), options.Find().SetProjection(s.Look).SetCollation(s.Collation)) {
		if err != nil {
			return total, err
		}
		f := s.Decode(raw)
		_, dropped, _ := model.Sweep(f.Record, f.Now, 0)
		isEmpty := s.Empty && len(f.Record.Holds) == 0
		if f.Err != nil || dropped == 0 && !isEmpty {
			continue
		}
		if tried == most {
			total.More = true
			break
		}
		if due.Holds += dropped; isEmpty {
			due.Records++
		}
		tried++
		if writes = append(writes, s.Drop(f.Record.Resource, raw)); len(writes) == chunk {
			if err := flush(); err != nil {
				return total, err
			}
		}
	}
	return total, flush()
}

// deleteIdle deletes at most most documents that match idle. tried counts the documents
// that it found. Documents that were locked in between no longer match, and stay.
func (s *Sweep) deleteIdle(ctx context.Context, idle bson.D, most int) (deleted, tried int, err error) {
	var ids bson.A
	flush := func() error {
		if len(ids) == 0 {
			return nil
		}
		n, err := s.DeleteMany(ctx, append(Obj("_id", Obj("$in", ids)), idle...), options.DeleteMany().SetCollation(s.Collation))
		deleted, ids = deleted+n, nil
		return s.Wrap(err)
	}
	for raw, err := range s.Scan(ctx, idle, options.Find().SetProjection(Obj("_id", 1)).SetCollation(s.Collation)) {
		if err != nil {
			return deleted, tried, err
		}
		id := raw.Lookup("_id")
		id.Value = slices.Clone(id.Value) // the cursor reuses it
		ids = append(ids, id)
		if tried++; len(ids) == chunk || tried == most {
			if err := flush(); err != nil || tried == most {
				return deleted, tried, err
			}
		}
	}
	return deleted, tried, flush()
}
