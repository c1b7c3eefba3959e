package mongolock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// at returns the request with a fair place of this number.
func at(q driver.AcquireRequest, place byte) driver.AcquireRequest {
	q.Place, q.Fair = driver.PlaceID{place}, true
	return q
}

// waits sends a request that must be refused and get its place.
func waits(t testing.TB, s driver.Store, q driver.AcquireRequest) {
	t.Helper()
	if e := ask.Refused(t, s, q); e.Position == driver.NoPlace {
		t.Errorf("%q has no place in the queue of %q", q.LockID, q.Resource)
	}
}

// waiters returns the lock IDs of the resource's waiters.
func waiters(t testing.TB, s driver.Queue, resource string) (lockIDs []string) {
	t.Helper()
	for p, err := range s.Waiters(t.Context(), driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		lockIDs = append(lockIDs, p.LockID)
	}
	return lockIDs
}

func leaving(resource string, place byte) driver.ReleaseRequest {
	return driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: resource, LockID: "any"}, Place: driver.PlaceID{place}}
}

func leave(t testing.TB, s driver.Store, qs ...driver.ReleaseRequest) {
	t.Helper()
	rs, err := s.Release(t.Context(), qs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range rs {
		if r != (driver.ReleaseResult{}) {
			t.Errorf("place %d: %+v", i, r)
		}
	}
}

// One command for each request about a place.
func TestCommandsOfQueue(t *testing.T) {
	coll, commands := sent.Through(t, newCollection(t))
	s := newStore(t, coll)
	one := []string{"findAndModify"}
	refs := []driver.HoldRef{ask.Granted(t, s, ask.Request("r", "a")), ask.Granted(t, s, ask.Request("s", "a"))}
	renewals := []driver.RenewRequest{{HoldRef: refs[0], TTL: time.Hour}, {HoldRef: refs[1], TTL: time.Hour}}
	commands.Want(t, "several renewals without waiters", []string{"update"}, func() { renew(t, s, renewals, -1) })
	commands.Want(t, "a renewal without waiters", one, func() { renew(t, s, renewals[:1], -1) })
	for place := range byte(5) {
		commands.Want(t, "a refusal with a place", one, func() { waits(t, s, at(ask.Request("r", "b"), place+1)) })
	}
	count := func(qs []driver.RenewRequest, want ...int) {
		rs, err := s.Renew(t.Context(), qs)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rs {
			if r.Err != nil || r.Waiters != want[i] {
				t.Errorf("renewal %d: %+v, want %d waiters", i, r, want[i])
			}
		}
	}
	commands.Want(t, "a renewal with waiters", one, func() { count(renewals[:1], 5) })
	commands.Want(t, "several renewals with waiters", []string{"update", "find"}, func() { count(renewals, 5, 0) })
	commands.Want(t, "a place is given up", one, func() { leave(t, s, leaving("r", 1)) })
	commands.Want(t, "several places are given up", []string{"find", "update"}, func() { leave(t, s, leaving("r", 2), leaving("s", 2), leaving("r", 3)) })
	commands.Want(t, "the places", []string{"find"}, func() {
		if got := waiters(t, s, "r"); len(got) != 2 {
			t.Errorf("%q wait", got)
		}
	})
	commands.Want(t, "a release with waiters", []string{"update"}, func() { release(t, s, true, refs[0]) })
	commands.Want(t, "a grant to a waiter", one, func() { ask.Granted(t, s, at(ask.Request("r", "c"), 4)) })
}

// If the queues cannot be read, the renewals still succeed.
func TestRenewalsWhoseWaitersAreUnknown(t *testing.T) {
	coll, fail := failing(t)
	s := newStore(t, coll)
	qs := renewals(t, s, "r", 2)
	waits(t, s, at(ask.Request(qs[0].Resource, "b"), 1))
	fail(engines.MongoFailure{Command: "find", Times: 1, Code: badValue})
	renew(t, s, qs, -1)
}

// A reply has the first four places, however many there are.
func TestPlacesInReplies(t *testing.T) {
	var last bson.Raw
	s := newStore(t, engines.MongoThrough(t, newCollection(t), options.Client().SetMonitor(&event.CommandMonitor{
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) { last = bytes.Clone(e.Reply) },
	})))
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	for place := range byte(9) {
		waits(t, s, at(ask.Request("r", fmt.Sprint("waiter ", place)), place+1))
	}
	shown := func(what string, want int) {
		t.Helper()
		if n := bytes.Count(last, []byte("placeId\x00")); n != want {
			t.Errorf("%s: the reply has %d places, want %d", what, n, want)
		}
	}
	waits(t, s, at(ask.Request("r", "waiter 8"), 9))
	shown("a refusal with a place", 4)
	waits(t, s, at(ask.Request("r", "waiter 2"), 3))
	shown("a refusal with a place near the front", 2)
	_ = ask.Refused(t, s, ask.Request("r", "b"))
	shown("a refusal without a place", 4)
	renew(t, s, []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}}, -1)
	shown("a renewal", 0)
}

// The clock of a command is the time when it began. If it then waited for a command that
// began later, it must not drop the place that the later command took.
func TestPlaceOfACommandThatBeganLater(t *testing.T) {
	db := engines.MongoDatabase(t)
	clock := engines.NewMongoClock(t, db)
	if !clock.Set() {
		t.Skip("the clock of a real server is not set back")
	}
	s := newStore(t, db.Collection("locks"))
	now := clock.Now()
	set := func(d time.Duration) {
		t.Helper()
		if err := engines.SetMongoClock(t.Context(), db, now.Add(d)); err != nil {
			t.Fatal(err)
		}
	}
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	waits(t, s, at(ask.Request("r", "first"), 1))
	set(-2 * time.Second)
	if e := ask.Refused(t, s, at(ask.Request("r", "second"), 2)); e.Position != 1 || e.Waiters != 2 {
		t.Errorf("position %d of %d, want 1 of 2", e.Position, e.Waiters)
	}
	release(t, s, true, ref)
	if e := ask.Refused(t, s, ask.Request("r", "late")); len(e.Ahead) != 2 || e.Ahead[0].LockID != "first" {
		t.Errorf("ahead are %+v", e.Ahead)
	}
	if got := waiters(t, s, "r"); !slices.Equal(got, []string{"first", "second"}) {
		t.Errorf("%q wait", got)
	}
	// A clock that was set back keeps no place alive.
	set(-time.Minute)
	if got := waiters(t, s, "r"); len(got) != 0 {
		t.Errorf("after the clock was set back, %q wait", got)
	}
	ask.Granted(t, s, ask.Request("r", "late"))
	if places, err := raw(t, db.Collection("locks"), "r").Lookup("waiters").Array().Values(); err != nil || len(places) != 0 {
		t.Errorf("left are the places %v, error %v", places, err)
	}
}

// Names of callers are plain text, whatever they look like.
func TestNamesOfWaiters(t *testing.T) {
	s := newStore(t, newCollection(t))
	ask.Granted(t, s, ask.Request("$r", "a"))
	var want []string
	for i, name := range []string{"$_id", "$$NOW", "$", "a.$b"} {
		q := at(ask.Request("$r", name), byte(i+1))
		q.Details = driver.Details{Owner: name, Host: name}
		want = append(want, name)
		waits(t, s, q)
		q.LockID = "$heir"
		waits(t, s, q)
		q.LockID = name
		waits(t, s, q)
	}
	for p, err := range s.Waiters(t.Context(), driver.Filter{Resource: "$r"}) {
		if err != nil || p.LockID != want[p.Position] || p.Owner != p.LockID || p.Host != p.LockID {
			t.Errorf("%+v, error %v", p, err)
		}
	}
}

// All waiters are found by their lock IDs.
func TestWaitersOfAll(t *testing.T) {
	s := newStore(t, newCollection(t))
	for _, resource := range []string{"r", "s"} {
		ask.Granted(t, s, ask.Request(resource, "a"))
		waits(t, s, at(ask.Request(resource, "b"), 1))
		waits(t, s, at(ask.Request(resource, "c "+resource), 2))
	}
	for _, c := range []struct {
		filter driver.Filter
		want   int
	}{
		{driver.Filter{}, 4}, {driver.Filter{LockID: "b"}, 2}, {driver.Filter{LockID: "c r"}, 1},
		{driver.Filter{Resource: "s"}, 2}, {driver.Filter{Resource: "s", LockID: "c r"}, 0}, {driver.Filter{Owner: "nobody"}, 0},
	} {
		n := 0
		for p, err := range s.Waiters(t.Context(), c.filter) {
			if err != nil {
				t.Fatal(err)
			}
			if n++; p.LockID != "b" && p.Position != 1 {
				t.Errorf("%+v", p)
			}
		}
		if n != c.want {
			t.Errorf("%+v finds %d places, want %d", c.filter, n, c.want)
		}
	}
}

// Old clients leave the queue alone, and do not wait for it. If the queue is lost,
// waiters rebuild it when they ask again.
func TestOldClientsAndQueue(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	ref := ask.Granted(t, s, ask.Request("r", "a"))
	waits(t, s, at(ask.Request("r", "b"), 1))
	release(t, s, true, ref)
	if !oldXLock(t, coll, "r", "old", nil) {
		t.Fatal("an old client was refused a free resource")
	}
	if e := ask.Refused(t, s, at(ask.Request("r", "c"), 2)); e.Position != 1 || len(e.Holders) != 1 {
		t.Errorf("behind an old client: %+v", e)
	}
	if _, err := coll.ReplaceOne(t.Context(), named("r"), append(named("r"), obj(
		"exclusive", oldLock("old", nil), "shared", obj("count", 0, "locks", bson.A{}))...)); err != nil {
		t.Fatal(err)
	}
	for i, lockID := range []string{"b", "c"} {
		if e := ask.Refused(t, s, at(ask.Request("r", lockID), byte(i+1))); e.Position != i {
			t.Errorf("%q has position %d, want %d", lockID, e.Position, i)
		}
	}
	old(t, coll, named("r"), obj("$set", obj("exclusive", nobody)))
	_ = ask.Refused(t, s, ask.Request("r", "late"))
	ask.Granted(t, s, at(ask.Request("r", "b"), 1))
}

// Invalid places do not count. The next request that changes the queue drops them.
func TestInvalidPlaces(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	soon, now := bson.NewDateTimeFromTime(time.Now().Add(time.Hour)), bson.NewDateTimeFromTime(time.Now())
	id := driver.PlaceID{7}.String()
	for name, place := range map[string]any{
		"a text": "place", "null": nil, "an empty one": bson.D{}, "without times": obj("placeId", id, "lockId", "b", "fair", true),
		"until a text":  obj("placeId", id, "lockId", "b", "asked", now, "until", "soon", "fair", true),
		"until never":   obj("placeId", id, "lockId", "b", "asked", now, "until", nil, "fair", true),
		"asked a text":  obj("placeId", id, "lockId", "b", "asked", "now", "until", soon, "fair", true),
		"in the past":   obj("placeId", id, "lockId", "b", "asked", bson.DateTime(1), "until", bson.DateTime(2), "fair", true),
		"in the future": obj("placeId", id, "lockId", "b", "asked", soon, "until", soon+1000, "fair", true),
	} {
		t.Run(name, func(t *testing.T) {
			release(t, s, true, ask.Granted(t, s, ask.Request(name, "a")))
			damage := func() {
				t.Helper()
				if _, err := coll.UpdateOne(t.Context(), named(name), obj("$set", obj("waiters", bson.A{place}))); err != nil {
					t.Fatal(err)
				}
			}
			damage()
			if got := waiters(t, s, name); len(got) != 0 {
				t.Errorf("%q wait", got)
			}
			ref := ask.Granted(t, s, ask.Request(name, "a"))
			damage()
			renew(t, s, []driver.RenewRequest{{HoldRef: ref, TTL: 2 * time.Hour}}, -1)
			damage()
			if e := ask.Refused(t, s, at(ask.Request(name, "b"), 1)); e.Position != 0 || e.Waiters != 1 {
				t.Errorf("position %d of %d", e.Position, e.Waiters)
			}
			if places, err := raw(t, coll, name).Lookup("waiters").Array().Values(); err != nil || len(places) != 1 {
				t.Errorf("the places are %v, error %v", places, err)
			}
			release(t, s, true, ref)
			ask.Granted(t, s, at(ask.Request(name, "b"), 1))
		})
	}
}

// A refusal needs no place: if it cannot be written, because the document has no room or
// others constantly write it, the request is decided without a place.
func TestRefusalsNeedNoWrite(t *testing.T) {
	for name, cause := range map[string]engines.MongoFailure{
		"no room":        {Times: 1, Code: documentTooLarge},
		"write conflict": {Times: triesOfAStatement, Code: writeConflict},
		"duplicate key":  {Times: triesOfAStatement, Code: duplicateKey},
	} {
		t.Run(name, func(t *testing.T) {
			coll, fail := failing(t)
			s := newStore(t, coll)
			ref := ask.Granted(t, s, ask.Shared(ask.Request("r", "a"), 2))
			refused := func(what string, q driver.AcquireRequest, position, waiters, ahead, holders int) {
				t.Helper()
				if e := ask.Refused(t, s, q); e.Position != position || e.Waiters != waiters || len(e.Ahead) != ahead || len(e.Holders) != holders {
					t.Errorf("%s: position %d of %d waiters, %d ahead, %d holders, want position %d of %d, %d ahead, and %d holders",
						what, e.Position, e.Waiters, len(e.Ahead), len(e.Holders), position, waiters, ahead, holders)
				}
			}
			fails := func() {
				cause.Command = "findAndModify"
				fail(cause)
			}
			first, second, third := at(ask.Request("r", "b"), 1), at(ask.Shared(ask.Request("r", "c"), 2), 2), at(ask.Request("r", "d"), 3)
			fails()
			refused("without places", first, driver.NoPlace, 0, 0, 1)
			refused("first", first, 0, 1, 0, 1)
			refused("second", second, 1, 2, 1, 1)
			before := raw(t, coll, "r")
			heir, other := second, first
			heir.LockID, other.Fair = "heir", false
			fails()
			refused("a place that another inherits", heir, driver.NoPlace, 1, 1, 1)
			fails()
			refused("a place of another kind", other, driver.NoPlace, 1, 1, 1)
			fails()
			refused("a new place", third, driver.NoPlace, 2, 2, 1)
			self := third
			self.LockID = "a"
			fails()
			refused("its own hold", self, driver.NoPlace, 2, 2, 1)
			if after := raw(t, coll, "r"); !bytes.Equal(after, before) {
				t.Errorf("the document was %v, and is %v", before, after)
			}
			release(t, s, true, ref)
			fails()
			refused("behind another", heir, driver.NoPlace, 1, 1, 0)
			fails()
			ask.Granted(t, s, first) // its own place does not block it
			if got := waiters(t, s, "r"); !slices.Equal(got, []string{"c"}) {
				t.Errorf("%q wait", got)
			}
			cause.Times *= 2
			fails()
			if _, err := s.Acquire(t.Context(), third); err == nil || errors.Is(err, driver.ErrHeld) || errors.Is(err, driver.ErrUnusable) != (name == "no room") {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A kept place is not written until a quarter of its time is over, so waiters that ask
// often do not write often.
func TestPlacesAreWrittenSeldom(t *testing.T) {
	coll := newCollection(t)
	clock := engines.NewMongoClock(t, coll.Database())
	s := newStore(t, coll)
	ask.Granted(t, s, ask.Request("r", "a"))
	q := at(ask.Request("r", "b"), 1)
	touched := func() int64 { return raw(t, coll, "r").Lookup("touched").AsInt64() }
	waits(t, s, q)
	before := touched()
	q.HoldID = driver.NewHoldID()
	waits(t, s, q)
	if is := touched(); is != before {
		t.Error("a fresh place was written")
	}
	if !clock.Set() {
		return
	}
	if err := clock.Pass(t.Context(), q.PlaceTTL()/4+time.Millisecond); err != nil {
		t.Fatal(err)
	}
	waits(t, s, q)
	if is := touched(); is == before {
		t.Error("a place of which a quarter is over was not written")
	}
}
