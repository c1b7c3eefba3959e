package engines

import (
	"context"
	"embed"
	"io/fs"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

//go:embed mongo/pom.xml mongo/src
var mongoProject embed.FS

// emulator is the application name in the URL of the emulator. A server does not
// care for it, and a test sees by it what it talks to.
const emulator = "appName=holdfast-emulator"

var mongoDB = &kind{
	name:     "mongodb",
	start:    func(ctx context.Context) (*process, error) { return startMongoDB(ctx, 0) },
	emulated: func(url string) bool { return strings.Contains(url, emulator) },
}

func startMongoDB(ctx context.Context, port int) (*process, error) {
	files, err := fs.Sub(mongoProject, "mongo")
	if err != nil {
		return nil, err
	}
	java, err := find("java")
	if err != nil {
		return nil, err
	}
	classPath, err := build(ctx, project{name: "mongo", files: []fs.FS{files}})
	if err != nil {
		return nil, err
	}
	return launch(ctx, java, "-Xms32m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-cp", classPath, "engine.Main", strconv.Itoa(port))
}

// MongoDB returns a server of MongoDB's protocol that all tests of this process
// share: an emulator, or what HOLDFAST_TEST_MONGODB_URL names.
func MongoDB(t testing.TB) Engine {
	t.Helper()
	return mongoDB.shared(t)
}

// StartMongoDB is MongoDB for a program that is no test. What this machine lacks
// is an error that says how to get it.
func StartMongoDB(ctx context.Context) (Engine, error) { return mongoDB.get(ctx) }

// MongoDatabase returns a database of the test's own on MongoDB(t), through a
// client of its own. At the end of the test it is dropped.
func MongoDatabase(t testing.TB) *mongo.Database {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(MongoDB(t).URL))
	if err != nil {
		t.Fatal(err)
	}
	db := client.Database(Name())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 10*time.Second)
		defer cancel()
		if err := db.Drop(ctx); err != nil {
			t.Errorf("dropping database %s: %v", db.Name(), err)
		}
		if err := client.Disconnect(ctx); err != nil {
			t.Error(err)
		}
	})
	return db
}

// MongoThrough returns the same collection of MongoDB(t), reached by a client of
// its own with these options. The client is disconnected at the end of the test.
func MongoThrough(t testing.TB, coll *mongo.Collection, opts *options.ClientOptions) *mongo.Collection {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(MongoDB(t).URL), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Disconnect(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return client.Database(coll.Database().Name()).Collection(coll.Name())
}

// MongoBehind is MongoThrough for a client that connects by a dialer which may
// fail. It looks for a lost server as often as it may, and does not wait long for
// it.
func MongoBehind(t testing.TB, coll *mongo.Collection, dialer options.ContextDialer) *mongo.Collection {
	t.Helper()
	return MongoThrough(t, coll, options.Client().SetDialer(dialer).
		SetHeartbeatInterval(500*time.Millisecond).SetConnectTimeout(2*time.Second).SetServerSelectionTimeout(2*time.Second))
}

// MongoURL returns the URL of a database on a server; parameters are added to
// those it has ("collection=locks").
func MongoURL(e Engine, database, parameters string) string {
	scheme, rest, _ := strings.Cut(e.URL, "://")
	address, query, _ := strings.Cut(rest, "?")
	host, _, _ := strings.Cut(address, "/")
	if query != "" && parameters != "" {
		query += "&"
	}
	return scheme + "://" + host + "/" + database + "?" + query + parameters
}

// SetMongoClock sets the emulator's clock ($$NOW) for all that is done in one
// database. It stands still there until it is set again.
func SetMongoClock(ctx context.Context, db *mongo.Database, now time.Time) error {
	return db.RunCommand(ctx, bson.D{{Key: "holdfastClock", Value: 1}, {Key: "now", Value: now}}).Err()
}

// SetMongoChangeStreams says whether the emulator has change streams in one
// database. Off is like a standalone server: open streams end, and none can be
// opened.
func SetMongoChangeStreams(ctx context.Context, db *mongo.Database, on bool) error {
	return db.RunCommand(ctx, bson.D{{Key: "holdfastChangeStreams", Value: 1}, {Key: "on", Value: on}}).Err()
}

// MongoFailure is an error that the emulator answers, because a test wants it.
type MongoFailure struct {
	// Command is the name of the commands that fail, Times how many of the next ones
	// do, Code the error's code.
	Command string
	Times   int
	Code    int
	// Items of an update command fail, each with a code of its own; the others are
	// done. Code is not used then.
	Items map[int]int
	// Written commands are done, and their write concern has the error.
	Written bool
	// Labels are those of the error.
	Labels []string
}

// FailMongo lets commands in one database of the emulator fail. It replaces what
// was said before of commands of that name.
func FailMongo(ctx context.Context, db *mongo.Database, f MongoFailure) error {
	command := bson.D{
		{Key: "holdfastFail", Value: 1}, {Key: "command", Value: f.Command},
		{Key: "times", Value: f.Times}, {Key: "code", Value: f.Code}, {Key: "written", Value: f.Written},
	}
	if f.Items != nil {
		items := bson.D{}
		for i, code := range f.Items {
			items = append(items, bson.E{Key: strconv.Itoa(i), Value: code})
		}
		command = append(command, bson.E{Key: "items", Value: items})
	}
	if f.Labels != nil {
		command = append(command, bson.E{Key: "labels", Value: f.Labels})
	}
	return db.RunCommand(ctx, command).Err()
}

// MongoServer is an emulator that belongs to one test, which may stop it. After a Restart it
// has no data: it keeps them in memory.
type MongoServer struct{ own }

// NewMongoServer starts an emulator, even where HOLDFAST_TEST_MONGODB_URL names a
// server. It ends with the test.
func NewMongoServer(t testing.TB) *MongoServer {
	t.Helper()
	s := &MongoServer{own{kind: mongoDB, start: startMongoDB}}
	s.begin(t, s.start, 0)
	s.endsWith(t)
	return s
}
