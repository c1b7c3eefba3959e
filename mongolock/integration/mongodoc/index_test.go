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
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

func makeIndex(t testing.TB, coll *mongo.Collection, opts *options.IndexOptionsBuilder) {
	t.Helper()
	_, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: obj("lockedAt", 1), Options: opts})
	if err != nil {
		t.Fatal(err)
	}
}

// oldEnds returns how long a new hold of an old program lives.
func oldEnds(t testing.TB, coll *mongo.Collection, s *mongodoc.Store) time.Duration {
	t.Helper()
	if _, err := coll.InsertOne(t.Context(), obj("_id", "old", "lockedAt", time.Now())); err != nil {
		t.Fatal(err)
	}
	return list(t, s, driver.Filter{Resource: "old", Expired: true})[0].Left
}

func TestTTLIndexIsMade(t *testing.T) {
	coll := newCollection(t)
	o := mongodoc.TTLOptions{MakeIndex: true, Timeout: 90 * time.Second}
	start(t, mongodoc.NewTTL(coll, &o))
	start(t, mongodoc.NewTTL(coll, &o))
	specs, err := coll.Indexes().ListSpecifications(t.Context())
	if err != nil || len(specs) != 2 || *specs[1].ExpireAfterSeconds != 90 {
		t.Errorf("indexes %+v, error %v", specs, err)
	}
	// Other stores take the timeout from the index.
	if left := oldEnds(t, coll, start(t, mongodoc.NewTTL(coll, nil))); left > 90*time.Second || left < 30*time.Second {
		t.Errorf("an old hold has %v left", left)
	}
}

func TestTTLIndexIsNotMade(t *testing.T) {
	coll := newCollection(t)
	s := start(t, mongodoc.NewTTL(coll, nil))
	if n, err := coll.Indexes().ListSpecifications(t.Context()); err != nil || len(n) > 1 {
		t.Errorf("indexes %+v, error %v", n, err)
	}
	if left := oldEnds(t, coll, s); left != driver.Forever {
		t.Errorf("without the index an old hold has %v left", left)
	}
	anyHold := driver.HoldRef{Resource: "old", LockID: mongodoc.OldLockID}
	if err := renew(t, s, anyHold, time.Minute); err != nil {
		t.Error(err)
	}
	if left := list(t, s, driver.Filter{Resource: "old"})[0].Left; left != driver.Forever {
		t.Errorf("renewed, it has %v left", left)
	}
	if !ask.Released(t, s, anyHold, time.Minute) || list(t, s, driver.Filter{Resource: "old"})[0].Left > time.Minute {
		t.Error("it cannot be given up with a delay")
	}
	if !ask.Released(t, s, anyHold, 0) {
		t.Error("it cannot be released")
	}
}

func TestUnfitIndexes(t *testing.T) {
	for says, opts := range map[string]*options.IndexOptionsBuilder{
		"1m0s":                    options.Index().SetExpireAfterSeconds(60),
		"removes nothing":         options.Index(),
		"partialFilterExpression": options.Index().SetExpireAfterSeconds(30).SetPartialFilterExpression(obj("a", 1)),
	} {
		coll := newCollection(t)
		makeIndex(t, coll, opts.SetName("theirs"))
		err := mongodoc.NewTTL(coll, &mongodoc.TTLOptions{Timeout: 30 * time.Second, MakeIndex: true}).Init(t.Context())
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), "theirs") || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want one that names the index and says %q", err, says)
		}
	}
}

// An index on more fields than lockedAt removes nothing, and is ignored.
func TestOtherIndexes(t *testing.T) {
	coll := newCollection(t)
	if _, err := coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: obj("lockedAt", 1, "note", 1)}); err != nil {
		t.Fatal(err)
	}
	makeIndex(t, coll, options.Index().SetExpireAfterSeconds(0))
	s := start(t, mongodoc.NewTTL(coll, nil))
	if left := oldEnds(t, coll, s); left != 0 {
		t.Errorf("expireAfterSeconds is 0, and a hold has %v left", left)
	}
	ask.Granted(t, s, ask.Request("r", "a"))
	if _, err := s.Acquire(t.Context(), ask.Request("r", "b")); !errors.Is(err, driver.ErrHeld) {
		t.Error(err)
	}
}
