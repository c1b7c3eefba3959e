package mongolock

import (
	"context"
	"errors"
	"log/slog"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver/wake"
	"github.com/holdfast-go/holdfast/internal/mongokit"
)

// frees matches the changes after which a waiter may be granted the resource. Releases
// and sweeps of Holdfast set freed. A change without touched is an old client's, of any
// kind. If a server reports a change as the whole document, freed equals touched after a
// release.
func frees() mongo.Pipeline {
	return mongo.Pipeline{
		obj("$match", obj("$or", bson.A{
			obj("operationType", "update", "$or", bson.A{
				obj("updateDescription.updatedFields."+freedField, obj("$exists", true)),
				obj("updateDescription.updatedFields."+touchedField, obj("$exists", false)),
			}),
			obj("operationType", "replace", "$expr", eq("$fullDocument."+freedField, "$fullDocument."+touchedField)),
		})),
		obj("$project", obj("operationType", 1, "fullDocument."+resourceField, 1)),
	}
}

// newStream returns the change stream that signals releases. All waiters share it.
func newStream(coll *mongokit.Collection, log *slog.Logger) *wake.Stream {
	s := &wake.Stream{Name: "change stream", Log: log}
	s.Open = func(ctx context.Context, _ bool) (follow func() error, err error) {
		stream, err := coll.Watch(ctx, frees())
		return func() error { return followStream(ctx, stream, &s.Hub) }, err
	}
	return s
}

// followStream signals until the stream ends.
func followStream(ctx context.Context, stream *mongo.ChangeStream, hub *wake.Hub) error {
	defer stream.Close(context.WithoutCancel(ctx))
	for stream.Next(ctx) {
		if resource, ok := stream.Current.Lookup("fullDocument", resourceField).StringValueOK(); ok {
			hub.Signal(resource)
		}
	}
	if err := stream.Err(); err != nil {
		return err
	}
	return errors.New("the server ended it")
}

// chooseWakeUps determines whether there are change streams: a standalone server has
// none, and the user needs the right to open them.
func (s *Store) chooseWakeUps(ctx context.Context) error {
	if s.polls.Load() {
		s.log.Info("holdfast: waiters poll, as configured")
		return nil
	}
	stream, err := s.coll.Watch(ctx, frees())
	if err == nil {
		s.log.Info("holdfast: waiters are woken by a change stream")
		return s.coll.Wrap(stream.Close(context.WithoutCancel(ctx)))
	}
	if mongokit.Transient(err) || mongokit.RefusesLogin(err) {
		return s.coll.Wrap(err)
	}
	s.polls.Store(true)
	s.log.Info("holdfast: waiters poll, because there are no change streams", "error", err)
	return nil
}
