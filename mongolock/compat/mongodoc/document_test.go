package mongodoc

import (
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
)

// FuzzDecode decodes arbitrary documents.
func FuzzDecode(f *testing.F) {
	now := bson.DateTime(time.Now().UnixMilli())
	hold := obj("token", 7, "touched", 1, "lockId", "a", "holdId", driver.NewHoldID().String(), "end", now, "takeoverDelay", 5)
	for _, doc := range []bson.D{
		{}, obj("_id", "r", "now", now), obj("_id", "r", "now", now, "lockedAt", now), obj("_id", "r", "now", now, "locked", true),
		obj("_id", "r", "now", now, "lockedAt", now, "holdfast", append(hold, obj("shown", obj("lockedAt", now))...)),
		obj("_id", "r", "now", now, "value", "v", "ttl", 1.5, "obtained_at", now, "holdfast", hold),
	} {
		raw, err := bson.Marshal(doc)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	client, err := mongo.Connect(options.Client()) // connects to nothing
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = client.Disconnect(f.Context()) })
	s := NewValue(client.Database("db").Collection("locks"))
	layouts := []*statements{
		newStatements(valueLayout), newStatements(flagLayout(time.Minute)),
		newStatements(ttlLayout(time.Minute, true)), newStatements(ttlLayout(time.Minute, false)),
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, st := range layouts {
			found := s.decode(st, raw)
			if err := found.Err; err != nil && !errors.Is(err, driver.ErrDamaged) && !errors.Is(err, driver.ErrUnusable) {
				t.Errorf("error %v", err)
			}
			for _, h := range found.Record.Holds {
				if h.LockID == "" || found.Err != nil {
					t.Errorf("hold %+v, error %v", h, found.Err)
				}
			}
		}
	})
}
