package engines_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/lab/engines"
)

// A frozen server does not answer on open and on new connections, and answers all requests
// after Thaw.
func TestFreeze(t *testing.T) {
	type server interface {
		Freeze(t testing.TB)
		Thaw(t testing.TB)
	}
	for name, start := range map[string]func(t *testing.T) (s server, ask func(ctx context.Context) error){
		"postgres": func(t *testing.T) (server, func(context.Context) error) {
			s := engines.NewPostgres(t)
			conn, err := pgx.Connect(t.Context(), s.URL)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close(t.Context()) })
			return s, conn.Ping
		},
		"mongodb": func(t *testing.T) (server, func(context.Context) error) {
			s := engines.NewMongoServer(t)
			client, err := mongo.Connect(options.Client().ApplyURI(s.URL))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = client.Disconnect(t.Context()) })
			return s, func(ctx context.Context) error {
				return client.Database("admin").RunCommand(ctx, bson.D{{Key: "ping", Value: 1}}).Err()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, ask := start(t)
			if err := ask(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.Freeze(t)
			answered := make(chan error, 1)
			go func() { answered <- ask(t.Context()) }()
			limited, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			select {
			case err := <-answered:
				s.Thaw(t)
				t.Fatalf("a server that stands still answers; error %v", err)
			case <-limited.Done():
			}
			s.Thaw(t)
			if err := <-answered; err != nil {
				t.Error(err)
			}
		})
	}
}
