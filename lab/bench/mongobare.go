package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/holdfast-go/holdfast/driver"
)

// bareMongo sends the two statements of a lock and its unlock with the driver alone, as
// mongolock wrote them: FindOneAndUpdate and UpdateOne. The statements are encoded beforehand.
// Only the hold ID, and the token from the reply to the first statement, are inserted each
// time.
type bareMongo struct {
	coll             *mongo.Collection
	acquire, release bareStatement
	holdID           []byte // hex digits in the statements
	token            []byte // in the second statement, encoded
}

// bareStatement is a recorded statement.
type bareStatement struct{ filter, update, fields, collation []byte }

// recordMongo lets mongolock lock and unlock a resource and records the statements. A lock in
// mode Shared has no limit.
func recordMongo(ctx context.Context, resource string, mode driver.Mode) *bareMongo {
	b := &bareMongo{}
	db := openMongo(ctx, &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		switch e.CommandName {
		case "findAndModify":
			b.acquire = bareStatement{
				filter: e.Command.Lookup("query").Value, update: e.Command.Lookup("update").Value,
				fields: e.Command.Lookup("fields").Value, collation: e.Command.Lookup("collation").Value,
			}
		case "update":
			b.release = bareStatement{
				filter: e.Command.Lookup("updates", "0", "q").Value, update: e.Command.Lookup("updates", "0", "u").Value,
				collation: e.Command.Lookup("updates", "0", "collation").Value,
			}
		}
	}})
	defer finish(db.close)
	client, _, closeLocks := db.lockIn(ctx, "locks")
	defer finish(closeLocks)
	lock := client.Lock
	if mode == driver.Shared {
		lock = client.RLock
	}
	h := must(lock(ctx, resource, nil))
	b.holdID = []byte(h.ID().String())
	b.token = encodedInt(int64(h.Token()))
	check(h.Unlock(ctx))
	for _, s := range []*bareStatement{&b.acquire, &b.release} {
		s.keep()
		if !bytes.Contains(s.update, b.holdID) {
			failf("no hold ID in a statement: %s", s.update)
		}
	}
	if !bytes.Contains(b.release.update, b.token) {
		failf("no token in the statement of an unlock: %s", b.release.update)
	}
	return b
}

// keep copies slices that the driver reuses.
func (s *bareStatement) keep() {
	for _, part := range []*[]byte{&s.filter, &s.update, &s.fields, &s.collation} {
		*part = bytes.Clone(*part)
	}
}

// in returns b for a collection, with the write concern that locks need.
func (b bareMongo) in(coll *mongo.Collection) *bareMongo {
	journal := true
	b.coll = coll.Clone(options.Collection().SetWriteConcern(
		&writeconcern.WriteConcern{W: writeconcern.WCMajority, Journal: &journal}))
	return &b
}

// pipeline is an encoded update.
type pipeline []byte

// MarshalBSONValue implements bson.ValueMarshaler.
func (p pipeline) MarshalBSONValue() (byte, []byte, error) { return byte(bson.TypeArray), p, nil }

var simple = &options.Collation{Locale: "simple"}

// lockAndUnlock sends the two statements.
func (b *bareMongo) lockAndUnlock(ctx context.Context) error {
	id := []byte(driver.NewHoldID().String())
	reply, err := b.coll.FindOneAndUpdate(ctx, bson.Raw(b.acquire.filter),
		pipeline(bytes.ReplaceAll(b.acquire.update, b.holdID, id)),
		options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After).
			SetProjection(bson.Raw(bytes.ReplaceAll(b.acquire.fields, b.holdID, id))).SetCollation(simple)).Raw()
	if err != nil {
		return err
	}
	token, ok := reply.Lookup("fence").AsInt64OK()
	if !ok {
		return fmt.Errorf("no fence in the reply %v", reply)
	}
	release := bytes.ReplaceAll(b.release.update, b.holdID, id)
	release = bytes.ReplaceAll(release, b.token, encodedInt(token))
	res, err := b.coll.UpdateOne(ctx, bson.Raw(bytes.ReplaceAll(b.release.filter, b.holdID, id)),
		pipeline(release), options.UpdateOne().SetCollation(simple))
	if err != nil {
		return err
	}
	if res.ModifiedCount != 1 {
		return errors.New("the second statement changed nothing")
	}
	return nil
}

func encodedInt(n int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(n)) }
