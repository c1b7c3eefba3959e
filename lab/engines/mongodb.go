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

// emulator is the application name in the emulator's URL. The server ignores it, and tests
// recognize the emulator by it.
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

// MongoDB returns a server of MongoDB's protocol that all tests of this process share: an
// emulator, or the server that HOLDFAST_TEST_MONGODB_URL names.
func MongoDB(t testing.TB) Engine {
	t.Helper()
	return mongoDB.shared(t)
}

// StartMongoDB is MongoDB for programs other than tests. If this machine lacks something, the
// error says how to get it.
func StartMongoDB(ctx context.Context) (Engine, error) { return mongoDB.get(ctx) }

// MongoDatabase returns a new database on MongoDB(t), through a client of its own. It is
// dropped when the test ends.
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

// MongoThrough returns the same collection of MongoDB(t) through a new client with these
// options. The client is disconnected when the test ends.
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

// MongoBehind is MongoThrough for a client with a dialer that may fail. The client checks for a
// lost server as often as possible, and does not wait long for it.
func MongoBehind(t testing.TB, coll *mongo.Collection, dialer options.ContextDialer) *mongo.Collection {
	t.Helper()
	return MongoThrough(t, coll, options.Client().SetDialer(dialer).
		SetHeartbeatInterval(500*time.Millisecond).SetConnectTimeout(2*time.Second).SetServerSelectionTimeout(2*time.Second))
}

// MongoURL returns the URL of a database on a server, with additional parameters
// ("collection=locks").
func MongoURL(e Engine, database, parameters string) string {
	scheme, rest, _ := strings.Cut(e.URL, "://")
	address, query, _ := strings.Cut(rest, "?")
	host, _, _ := strings.Cut(address, "/")
	if query != "" && parameters != "" {
		query += "&"
	}
	return scheme + "://" + host + "/" + database + "?" + query + parameters
}

// SetMongoClock sets the emulator's clock ($$NOW) for all commands in one database. The clock
// does not run there until it is set again.
func SetMongoClock(ctx context.Context, db *mongo.Database, now time.Time) error {
	return db.RunCommand(ctx, bson.D{{Key: "holdfastClock", Value: 1}, {Key: "now", Value: now}}).Err()
}

// SetMongoChangeStreams switches change streams in one database of the emulator. Without them
// it is like a standalone server: open streams end, and no stream can be opened.
func SetMongoChangeStreams(ctx context.Context, db *mongo.Database, on bool) error {
	return db.RunCommand(ctx, bson.D{{Key: "holdfastChangeStreams", Value: 1}, {Key: "on", Value: on}}).Err()
}

// MongoFailure is an error that the emulator returns at a test's request.
type MongoFailure struct {
	// Command is the name of the failing command, Times how many of the next commands fail, and
	// Code the error code.
	Command string
	Times   int
	Code    int
	// Items are the failing items of an update command with their error codes; the other items
	// are applied. Code is not used then.
	Items map[int]int
	// Written means that the commands are applied, and that the error is in their write
	// concern.
	Written bool
	// Labels are the labels of the error.
	Labels []string
}

// FailMongo makes commands in one database of the emulator fail. It replaces an earlier failure
// for commands of that name.
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

// MongoServer is an emulator for one test, which may stop it. It has no data after a Restart,
// because it keeps them in memory.
type MongoServer struct{ own }

// NewMongoServer starts an emulator, even if HOLDFAST_TEST_MONGODB_URL names a server. It ends
// with the test.
func NewMongoServer(t testing.TB) *MongoServer {
	t.Helper()
	s := &MongoServer{own{kind: mongoDB, start: startMongoDB}}
	s.begin(t, s.start, 0)
	s.endWithTest(t)
	return s
}
