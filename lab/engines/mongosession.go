package engines

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// OutsideMongoTransactions runs a test twice: with a ctx that carries a transaction of the
// collection's own client, as Session.WithTransaction passes it to its callback, and with a
// transaction of another client, which the driver refuses. No command sent through coll may
// belong to the transaction.
func OutsideMongoTransactions(t *testing.T, near *mongo.Collection, test func(ctx context.Context, t *testing.T, coll *mongo.Collection)) {
	t.Helper()
	for _, whose := range []string{"its own client", "another client"} {
		t.Run("of "+whose, func(t *testing.T) {
			var sent sentCommands
			coll := MongoThrough(t, near, options.Client().SetMonitor(sent.monitor()))
			client := coll.Database().Client()
			if whose == "another client" {
				client = near.Database().Client()
			}
			session, err := client.StartSession()
			if err != nil {
				t.Fatal(err)
			}
			defer session.EndSession(context.WithoutCancel(t.Context()))
			if err := session.StartTransaction(); err != nil {
				t.Fatal(err)
			}
			test(mongo.NewSessionContext(t.Context(), session), t, coll)
			sent.noneIn(t, session)
		})
	}
}

// sentCommands records the commands of a client.
type sentCommands struct {
	mu  sync.Mutex
	all []bson.Raw
}

func (s *sentCommands) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, bytes.Clone(e.Command))
	}}
}

// noneIn checks the commands. The driver does not send the session's ID to a server without
// sessions, but there too a command in a transaction lacks its write concern.
func (s *sentCommands) noneIn(t *testing.T, session *mongo.Session) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		t.Error("nothing was sent")
	}
	for _, command := range s.all {
		id, _ := command.Lookup("lsid").DocumentOK()
		if bytes.Equal(id, session.ID()) || command.Lookup("autocommit").Type != 0 {
			t.Errorf("sent in the transaction: %v", command)
		}
		first, err := command.IndexErr(0)
		if err != nil {
			t.Fatal(err)
		}
		switch first.Key() {
		case "findAndModify", "update", "delete", "createIndexes":
			if w, _ := command.Lookup("writeConcern", "w").StringValueOK(); w != "majority" {
				t.Errorf("sent without write concern: %v", command)
			}
		}
	}
}
