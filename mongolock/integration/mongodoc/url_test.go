package mongodoc_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	_ "github.com/holdfast-go/holdfast/mongolock" // its URLs
)

// kinds are the names of the layouts in URLs, with mongolock's own.
var kinds = []string{"ttl", "flag", "value", ""}

// byURL opens the collection by a URL.
func byURL(t *testing.T, coll *mongo.Collection, kind, more string) (driver.Store, error) {
	t.Helper()
	parameters := "collection=" + coll.Name() + more
	if kind != "" {
		parameters += "&layout=" + kind
	}
	s, err := driver.Open(t.Context(), engines.MongoURL(engines.MongoDB(t), coll.Database().Name(), parameters))
	if err == nil {
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return s, err
}

// A URL can open every layout, and no layout is mistaken for another: held resources
// would look free.
func TestURLs(t *testing.T) {
	for _, kind := range kinds {
		coll := newCollection(t)
		s, err := byURL(t, coll, kind, "")
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix("mongodb-"+kind, "-")
		if err := s.(driver.Initializer).Init(t.Context()); err != nil || s.Traits().Name != name {
			t.Fatalf("%q: %s, error %v", kind, s.Traits().Name, err)
		}
		ask.Granted(t, s, ask.Request("r", "a"))
		for _, other := range kinds {
			s, err := byURL(t, coll, other, "")
			if err != nil {
				t.Fatal(err)
			}
			err = s.(driver.Initializer).Init(t.Context())
			if kind == other && err != nil || kind != other && !errors.Is(err, driver.ErrUnusable) {
				t.Errorf("a collection of layout %q opened as %q: error %v", kind, other, err)
			}
		}
	}
}

func TestURLTimeout(t *testing.T) {
	coll := newCollection(t)
	s, err := byURL(t, coll, "flag", "&timeout=1h")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.(driver.Initializer).Init(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := coll.InsertOne(t.Context(), obj("_id", "r", "locked", true, "lockedAt", time.Now().Add(-time.Minute))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), ask.Request("r", "a")); !errors.Is(err, driver.ErrHeld) {
		t.Errorf("held for an hour, a minute ago: error %v", err)
	}
	for kind, more := range map[string]string{"flag": "&timeout=soon", "ttl": "&timeout=-1s", "value": "&timeout=1s", "none": ""} {
		if _, err := byURL(t, coll, kind, more); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s%s: error %v", kind, more, err)
		}
	}
}

// An index that lets the server delete held documents is refused. In a collection without
// locks, only the index shows the TTL layout.
func TestIndexThatRemoves(t *testing.T) {
	for kind, fields := range map[string][]string{
		"ttl": {"holdfast.end"}, "flag": {"lockedAt", "holdfast.createdAt"}, "value": {"obtained_at"}, "": {"lockedAt"},
	} {
		for _, field := range fields {
			coll := newCollection(t)
			if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{
				Keys: obj(field, 1), Options: options.Index().SetExpireAfterSeconds(30),
			}); err != nil {
				t.Fatal(err)
			}
			s, err := byURL(t, coll, kind, "")
			if err != nil {
				t.Fatal(err)
			}
			if err := s.(driver.Initializer).Init(t.Context()); !errors.Is(err, driver.ErrUnusable) {
				t.Errorf("layout %q with a TTL index on %s: error %v", kind, field, err)
			}
		}
	}
}

// Some old programs of the flag layout do not use lockedAt. Their locks last until they
// unlock, whatever Holdfast did before.
func TestFlagWithoutDate(t *testing.T) {
	coll := newCollection(t)
	s := start(t, newFlag(coll))
	lock := func(from, to bool) bool {
		t.Helper()
		res, err := coll.UpdateOne(t.Context(), obj("_id", "r", "locked", from), obj("$set", obj("locked", to)))
		if err != nil {
			t.Fatal(err)
		}
		return res.ModifiedCount == 1
	}
	q := ask.Request("r", "a")
	q.TTL = time.Millisecond
	ask.Granted(t, s, q)
	if lock(false, true) {
		t.Fatal("a plain program was granted a held resource")
	}
	ask.Until(t, "it has expired and is swept", func() bool {
		swept, err := s.Sweep(t.Context(), driver.SweepRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return swept.Holds == 1
	})
	for range 2 {
		if !lock(false, true) {
			t.Fatal("a plain program was refused a free resource")
		}
		var held *driver.HeldError
		if _, err := s.Acquire(t.Context(), ask.Request("r", "a")); !errors.As(err, &held) || held.Holders[0].Left != driver.Forever {
			t.Fatalf("held by a plain program: error %v", err)
		}
		lock(true, false)
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		if !ask.Released(t, s, ref, 0) {
			t.Fatal("the hold was not found")
		}
	}
}
