package main

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock"
)

// mongoDB is a database for one measurement, on the server that the tests use: an emulator, or
// the server that HOLDFAST_TEST_MONGODB_URL names.
type mongoDB struct {
	*mongo.Database
	server string // its name in results
}

const emulator = "the emulator of MongoDB"

// row is the name of the server in drawings.
func (db *mongoDB) row() string {
	if db.server == emulator {
		return "MongoDB (an emulator)"
	}
	return "MongoDB"
}

// openMongo connects to the server. The monitor may be nil, because a monitor takes time.
func openMongo(ctx context.Context, monitor *event.CommandMonitor) *mongoDB {
	engine := must(engines.StartMongoDB(ctx))
	client := must(mongo.Connect(options.Client().ApplyURI(engine.URL).SetMonitor(monitor)))
	db := &mongoDB{Database: client.Database(engines.Name()), server: "a server of MongoDB"}
	if engine.Emulated {
		db.server = emulator
	}
	return db
}

// close drops the database.
func (db *mongoDB) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	return errors.Join(db.Drop(ctx), db.Client().Disconnect(ctx))
}

// lockIn returns a Client of a store in a collection. It has been used once, so that first-time
// requests are done. close closes both.
func (db *mongoDB) lockIn(ctx context.Context, collection string) (client *holdfast.Client, store *mongolock.Store, close func() error) {
	store = mongolock.New(db.Collection(collection), nil)
	client = holdfast.New(store, nil)
	close = func() error { return errors.Join(client.Close(), store.Close()) }
	defer undo(close)
	check(lockAndUnlock(ctx, client, "first"))
	return client, store, close
}
