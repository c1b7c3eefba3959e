package mongolock_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/lab/faults"
	"github.com/holdfast-go/holdfast/mongolock"
	"github.com/holdfast-go/holdfast/mongolock/integration/sent"
)

// Error codes of servers.
const (
	badValue          = 2
	unauthorized      = 13
	writeTimeout      = 64
	writeConflict     = 112
	notPrimary        = 10107
	duplicateKey      = 11000
	shutdown          = 11600
	documentTooLarge  = 17419
	onlyOnReplicaSets = 40573
	unknownStage      = 40324
	triesOfAStatement = 12
)

// failing returns a collection on the emulator, and a function that makes its commands
// fail.
func failing(t *testing.T) (*mongo.Collection, func(engines.MongoFailure)) {
	t.Helper()
	if !engines.MongoDB(t).Emulated {
		t.Skip("a real server does not fail as a test wants")
	}
	coll := newCollection(t)
	return coll, func(f engines.MongoFailure) {
		t.Helper()
		if err := engines.FailMongo(t.Context(), coll.Database(), f); err != nil {
			t.Fatal(err)
		}
	}
}

// A statement that the server did not decide is sent again, a bounded number of times,
// and never reported as held.
func TestUndecidedAcquire(t *testing.T) {
	coll, fail := failing(t)
	through, commands := sent.Through(t, coll)
	s := newStore(t, through)
	for name, code := range map[string]int{"write conflict": writeConflict, "duplicate key": duplicateKey} {
		fail(engines.MongoFailure{Command: "findAndModify", Times: 3, Code: code})
		ask.Granted(t, s, ask.Request(name, "a"))
		fail(engines.MongoFailure{Command: "findAndModify", Times: 100, Code: code})
		got := commands.Names(func() {
			_, err := s.Acquire(t.Context(), ask.Request(name, "b"))
			faults.MustBeUnknown(t, err)
		})
		if n := slices.Index(append(got, ""), ""); n < triesOfAStatement || got[triesOfAStatement-1] != "findAndModify" ||
			slices.Contains(got[triesOfAStatement:], "findAndModify") {
			t.Errorf("%s: %d commands were sent: %q", name, n, got)
		}
		fail(engines.MongoFailure{Command: "findAndModify"})
	}
}

// A write that did not reach a majority may still be undone, or not.
func TestWriteConcernErrorIsUnknown(t *testing.T) {
	coll, fail := failing(t)
	s := newStore(t, coll)
	for name, prepare := range faults.Operations {
		p := prepare(t, s, name)
		leaveIdle(t, coll, name+" idle")
		for _, command := range []string{"findAndModify", "update", "delete"} {
			fail(engines.MongoFailure{Command: command, Times: 1, Code: writeTimeout, Written: true})
		}
		switch err := p.Do(t.Context(), s); name {
		case "list", "init", "watch": // they do not write
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		default:
			faults.MustBeUnknown(t, err)
		}
		for _, command := range []string{"findAndModify", "update", "delete"} {
			fail(engines.MongoFailure{Command: command})
		}
		if err := p.Do(t.Context(), s); err != nil {
			t.Errorf("%s, repeated: %v", name, err)
		}
		p.Check()
	}
}

// leaveIdle inserts a record that has been idle since 1970, for a sweep to delete.
func leaveIdle(t *testing.T, coll *mongo.Collection, resource string) {
	t.Helper()
	if _, err := coll.InsertOne(t.Context(), append(named(resource), obj(
		"exclusive", nobody, "shared", obj("count", 0, "locks", bson.A{}), "fence", int64(1), "touched", int64(1),
	)...)); err != nil {
		t.Fatal(err)
	}
}

// renewals returns renewals for n holds, with a longer TTL than theirs.
func renewals(t *testing.T, s driver.Store, name string, n int) (qs []driver.RenewRequest) {
	for i := range n {
		ref := ask.Granted(t, s, ask.Request(fmt.Sprint(name, " ", i), "a"))
		qs = append(qs, driver.RenewRequest{HoldRef: ref, TTL: 5 * time.Hour})
	}
	return qs
}

// listed returns the hold of a resource.
func listed(t *testing.T, s driver.Store, resource string) (found driver.Status) {
	t.Helper()
	for st, err := range s.List(t.Context(), driver.Filter{Resource: resource}) {
		if err != nil {
			t.Fatal(err)
		}
		found = st
	}
	return found
}

// In a batch, undecided items are sent again, and failed items do not count as done, in
// whatever order they come.
func TestItemsThatFail(t *testing.T) {
	coll, fail := failing(t)
	s := newStore(t, coll)
	for name, c := range map[string]struct {
		items  map[int]int
		failed []int
	}{
		"conflicts":                {map[int]int{0: writeConflict, 2: writeConflict}, nil},
		"conflicts of all":         {map[int]int{0: writeConflict, 1: writeConflict, 2: writeConflict}, nil},
		"one fails":                {map[int]int{1: badValue}, []int{1}},
		"one fails, one conflicts": {map[int]int{0: badValue, 2: writeConflict}, []int{0}},
		"all fail":                 {map[int]int{0: badValue, 1: badValue, 2: badValue}, []int{0, 1, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			qs := renewals(t, s, name, 3)
			fail(engines.MongoFailure{Command: "update", Times: 1, Items: c.items})
			renewed, err := s.Renew(t.Context(), qs)
			if err != nil {
				t.Fatal(err)
			}
			releases := make([]driver.ReleaseRequest, len(qs))
			for i, r := range renewed {
				releases[i].HoldRef = qs[i].HoldRef
				wrong := slices.Contains(c.failed, i)
				if wrong {
					faults.MustBeUnknown(t, r.Err)
				} else if r.Err != nil {
					t.Errorf("renewal %d: %v", i, r.Err)
				}
				if st := listed(t, s, qs[i].Resource); wrong != (st.Left < 2*time.Hour) {
					t.Errorf("renewal %d fails: %v, the store has %+v", i, wrong, st)
				}
			}
			fail(engines.MongoFailure{Command: "update", Times: 1, Items: c.items})
			released, err := s.Release(t.Context(), releases)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range released {
				wrong := slices.Contains(c.failed, i)
				if wrong {
					faults.MustBeUnknown(t, r.Err)
				} else if r.Err != nil || !r.Found {
					t.Errorf("release %d: found %v, error %v", i, r.Found, r.Err)
				}
				if there := listed(t, s, qs[i].Resource) != (driver.Status{}); there != wrong {
					t.Errorf("release %d fails: %v, the hold is there: %v", i, wrong, there)
				}
			}
		})
	}
}

// The same applies if the server reports a conflict for a whole batch.
func TestBatchUndecided(t *testing.T) {
	coll, fail := failing(t)
	s := newStore(t, coll)
	qs := renewals(t, s, "r", 3)
	fail(engines.MongoFailure{Command: "update", Times: 3, Code: writeConflict})
	renew(t, s, qs, -1)
	fail(engines.MongoFailure{Command: "update", Times: 1, Code: writeConflict})
	release(t, s, true, qs[0].HoldRef)
	fail(engines.MongoFailure{Command: "update", Times: 100, Code: writeConflict})
	_, err := s.Renew(t.Context(), qs)
	faults.MustBeUnknown(t, err)
}

// A batch that the server never decides ends.
func TestItemsNeverDecided(t *testing.T) {
	coll, fail := failing(t)
	s := newStore(t, coll)
	qs := renewals(t, s, "r", 2)
	fail(engines.MongoFailure{Command: "update", Times: 100, Items: map[int]int{0: writeConflict}})
	renewed, err := s.Renew(t.Context(), qs)
	if err != nil {
		t.Fatal(err)
	}
	faults.MustBeUnknown(t, renewed[0].Err)
	if renewed[1].Err != nil {
		t.Error(renewed[1].Err)
	}
}

// An error of a server that shuts down or is no longer the primary does not mean that it
// has no change streams.
func TestNoStreamsForNow(t *testing.T) {
	coll, fail := failing(t)
	for _, code := range []int{shutdown, notPrimary} {
		s := mongolock.New(coll, nil)
		fail(engines.MongoFailure{Command: "aggregate", Times: 10, Code: code})
		faults.MustBeUnknown(t, s.Init(t.Context()))
		if !s.Traits().Notifies {
			t.Errorf("code %d: the store polls from now on", code)
		}
		fail(engines.MongoFailure{Command: "aggregate"})
		ask.Until(t, "the server is asked again", func() bool { return s.Init(t.Context()) == nil })
		if !s.Traits().Notifies {
			t.Errorf("code %d: the store polls from now on", code)
		}
		closeStore(t, s)
	}
	for _, code := range []int{onlyOnReplicaSets, unauthorized, unknownStage} {
		s := mongolock.New(coll, nil)
		fail(engines.MongoFailure{Command: "aggregate", Times: 1, Code: code})
		if err := s.Init(t.Context()); err != nil || s.Traits().Notifies {
			t.Errorf("code %d: error %v, notifies: %v", code, err, s.Traits().Notifies)
		}
		closeStore(t, s)
	}
}

// Lasting errors say what to do.
func TestLastingFailures(t *testing.T) {
	coll, fail := failing(t)
	s := newStore(t, coll)
	for code, says := range map[int]string{
		unauthorized: "readWrite", documentTooLarge: "16 MB",
	} {
		fail(engines.MongoFailure{Command: "findAndModify", Times: 1, Code: code})
		_, err := s.Acquire(t.Context(), ask.Request("r", "a"))
		if !errors.Is(err, driver.ErrUnusable) || !strings.Contains(err.Error(), says) {
			t.Errorf("code %d: %v, want ErrUnusable that says %q", code, err, says)
		}
	}
}

// After a connection was lost, the store sends no request that needs another one.
func TestNetworkErrorEndsAcquire(t *testing.T) {
	coll, fail := failing(t)
	through, commands := sent.Through(t, coll)
	s := newStore(t, through)
	fail(engines.MongoFailure{Command: "findAndModify", Times: 1, Code: notPrimary})
	got := commands.Names(func() {
		_, err := s.Acquire(t.Context(), ask.Request("r", "a"))
		faults.MustBeUnknown(t, err)
	})
	if !slices.Equal(got, []string{"findAndModify"}) {
		t.Errorf("sent %q", got)
	}
}
