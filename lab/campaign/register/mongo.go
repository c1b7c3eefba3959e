package register

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"

	"github.com/holdfast-go/holdfast/mongolock/fence"
)

type mongoRegister struct {
	client *mongo.Client
	coll   *mongo.Collection
}

// openMongo opens the register in the database that the URL names.
func openMongo(url string) (Register, error) {
	parsed, err := connstring.ParseAndValidate(url)
	if err != nil {
		return nil, err
	}
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	if err != nil {
		return nil, err
	}
	return mongoRegister{client, client.Database(parsed.Database).Collection("registers")}, nil
}

// PrepareMongo creates the documents.
func PrepareMongo(ctx context.Context, db *mongo.Database, resources []string) error {
	documents := make([]bson.M, len(resources))
	for i, resource := range resources {
		documents[i] = bson.M{"_id": resource}
	}
	_, err := db.Collection("registers").InsertMany(ctx, documents)
	return err
}

func (r mongoRegister) Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error {
	filter, update := bson.M{"_id": resource}, bson.M{"$set": bson.M{"value": value}}
	var err error
	if fenced {
		_, err = fence.UpdateOne(ctx, r.coll, filter, update, token)
	} else {
		_, err = r.coll.UpdateOne(ctx, filter, update)
	}
	return stale(err)
}

func (r mongoRegister) Close() error { return r.client.Disconnect(context.Background()) }
