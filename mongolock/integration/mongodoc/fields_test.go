package mongodoc_test

import (
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
	"github.com/holdfast-go/holdfast/lab/engines"
	"github.com/holdfast-go/holdfast/mongolock/compat/mongodoc"
)

// until returns when the hold ends in the view of old programs.
func until(t testing.TB, l layout, doc bson.Raw) time.Time {
	t.Helper()
	if l.name == "value" {
		return doc.Lookup("obtained_at").Time().Add(time.Duration(doc.Lookup("ttl").AsInt64()) * time.Second)
	}
	if l.name == "flag" && !doc.Lookup("locked").Boolean() {
		return time.Time{}
	}
	return doc.Lookup("lockedAt").Time().Add(mongodoc.DefaultTimeout)
}

// Old programs see the end to the millisecond, and a takeover delay.
func TestShownToOldPrograms(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll := newCollection(t)
		clock := engines.NewMongoClock(t, coll.Database())
		if !clock.Set() {
			t.Skip("the clock of a real server cannot be set")
		}
		s := start(t, l.open(coll))
		sees := func(what string, want time.Duration) {
			t.Helper()
			if got := until(t, l, raw(t, coll, "r")).Sub(clock.Now()); got != want {
				t.Errorf("%s: old programs see an end in %v, want %v", what, got, want)
			}
		}
		for _, ttl := range []time.Duration{time.Millisecond, 999 * time.Millisecond, 1500 * time.Millisecond, time.Minute, driver.MaxTTL} {
			q := ask.Request("r", "a")
			q.TTL, q.TakeoverDelay = ttl, 2345*time.Millisecond
			ref := ask.Granted(t, s, q)
			sees("granted for "+ttl.String(), ttl+q.TakeoverDelay)
			if err := renew(t, s, ref, ttl+1234*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			sees("renewed", ttl+1234*time.Millisecond+q.TakeoverDelay)
			ask.Released(t, s, ref, ttl)
			sees("given up", ttl)
			ask.Released(t, s, ref, 0)
		}
		q := ask.Request("r", "a")
		q.TTL = driver.Forever
		ref := ask.Granted(t, s, q)
		if end := until(t, l, raw(t, coll, "r")); end.Year() != 9999 {
			t.Errorf("without an end: old programs see %v", end)
		}
		ask.Released(t, s, ref, 0)
		switch doc := raw(t, coll, "r"); l.name {
		case "TTL":
			if doc != nil {
				t.Errorf("released: %v is left", doc)
			}
		default:
			if end := until(t, l, doc); !end.Before(clock.Now()) {
				t.Errorf("released: old programs see an end at %v", end)
			}
		}
	})
}

// A new hold with the same value as a former one never has its obtained_at: an old
// program that has read the former one as expired would take over the new one.
func TestObtainedAtIsNew(t *testing.T) {
	coll := newCollection(t)
	clock := engines.NewMongoClock(t, coll.Database())
	if !clock.Set() {
		t.Skip("the clock of a real server cannot be set")
	}
	s := start(t, mongodoc.NewValue(coll))
	ttls := []time.Duration{time.Millisecond, 500 * time.Millisecond, time.Second, 1500 * time.Millisecond, 30 * time.Second}
	for _, first := range ttls {
		for _, second := range ttls {
			q := ask.Request("r", "a")
			q.TTL = first
			ask.Granted(t, s, q)
			before := raw(t, coll, "r").Lookup("obtained_at").Time()
			if err := clock.Pass(t.Context(), first+time.Millisecond); err != nil { // now old programs can read it as expired
				t.Fatal(err)
			}
			q = ask.Request("r", "a")
			q.TTL = second
			ref := ask.Granted(t, s, q)
			if after := raw(t, coll, "r").Lookup("obtained_at").Time(); !after.After(before) {
				t.Errorf("TTL %v, then %v: obtained_at was %v and is %v", first, second, before, after)
			}
			ask.Released(t, s, ref, 0)
		}
	}
}

// Without old programs tokens rise in the layout whose documents stay, even while the
// clock stands still or goes back.
func TestTokensOfValue(t *testing.T) {
	coll := newCollection(t)
	clock := engines.NewMongoClock(t, coll.Database())
	s := start(t, mongodoc.NewValue(coll))
	last := uint64(0)
	for range 20 {
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		if ref.Token <= last {
			t.Fatalf("token %d follows %d", ref.Token, last)
		}
		last = ref.Token
		ask.Released(t, s, ref, 0)
		if clock.Set() {
			if err := clock.Pass(t.Context(), -time.Second); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// In the layout whose documents old programs do not create, no document is deleted. In
// the layout in which a document is a hold, all expired ones are deleted.
func TestSweepKeepsToTheLayout(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll := newCollection(t)
		clock := engines.NewMongoClock(t, coll.Database())
		if !clock.Set() {
			t.Skip("the clock of a real server cannot be set")
		}
		s := start(t, l.open(coll))
		ask.Released(t, s, ask.Granted(t, s, ask.Request("idle", "a")), 0)
		q := ask.Request("expired", "a")
		q.TTL, q.TakeoverDelay = time.Second, time.Second
		expired := ask.Granted(t, s, q)
		q = ask.Request("given up too late", "a")
		q.TTL, q.TakeoverDelay = time.Second, time.Hour
		late := ask.Granted(t, s, q)
		live := ask.Granted(t, s, ask.Request("live", "a"))
		for _, d := range []time.Duration{time.Second, time.Second} {
			if got, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Minute}); err != nil || got.Holds != 0 {
				t.Fatalf("sweep: %+v, error %v; nothing had expired", got, err)
			}
			if err := clock.Pass(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
		// Its takeover delay ends with it. In the layout that deletes on release, this
		// one cannot.
		if !ask.Released(t, s, late, time.Second) {
			t.Error("the late release found nothing")
		}
		if n := len(list(t, s, driver.Filter{Expired: true})); n != 2 {
			t.Errorf("list shows %d holds, want the live and the expired one", n)
		}
		got, err := s.Sweep(t.Context(), driver.SweepRequest{Idle: time.Minute})
		if err != nil || got.Holds != 1 {
			t.Errorf("sweep: %+v, error %v; want one hold dropped", got, err)
		}
		left := map[string]int64{"TTL": 1, "flag": 4, "value": 4}[l.name]
		if n, err := coll.CountDocuments(t.Context(), obj()); err != nil || n != left {
			t.Errorf("%d documents are left (error %v), want %d", n, err, left)
		}
		if err := renew(t, s, expired, time.Hour); !errors.Is(err, driver.ErrLost) {
			t.Errorf("renewal of a swept hold: %v", err)
		}
		if err := renew(t, s, live, time.Hour); err != nil {
			t.Error(err)
		}
	})
}
