package mongolock_test

import (
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// The hold that a repeat finds may be on one server alone, so that the first attempt was
// not answered. So a repeat writes, and is answered when the majority has the write. It
// changes nothing else.
func TestRepeatWrites(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	for name, q := range map[string]driver.AcquireRequest{
		"exclusive": ask.Request("x", "$a"),
		"shared":    ask.Shared(ask.Request("s", "a"), 3),
		"forever":   {Resource: "f", LockID: "a", HoldID: driver.NewHoldID(), TTL: driver.Forever},
	} {
		if name == "shared" {
			ask.Granted(t, s, ask.Shared(ask.Request("s", "another"), 3))
		}
		ask.Granted(t, s, q)
		touched := func() (int64, bson.Raw) {
			var doc bson.D
			if err := bson.Unmarshal(raw(t, coll, q.Resource), &doc); err != nil {
				t.Fatal(err)
			}
			for i, e := range doc {
				if e.Key == "touched" {
					doc[i].Value = nil
				}
			}
			rest, err := bson.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			return raw(t, coll, q.Resource).Lookup("touched").AsInt64(), rest
		}
		before, rest := touched()
		ask.Granted(t, s, q)
		after, same := touched()
		if after <= before || string(rest) != string(same) {
			t.Errorf("%s: touched was %d and is %d; the document was\n%v\nand is\n%v", name, before, after, rest, same)
		}
		// A refusal does not write.
		other := q
		other.LockID, other.HoldID, other.Mode, other.Limit = "b", driver.NewHoldID(), driver.Exclusive, 0
		if _, err := s.Acquire(t.Context(), other); err == nil {
			t.Fatalf("%s: granted twice", name)
		}
		if again, _ := touched(); again != after {
			t.Errorf("%s: a refusal has written the document", name)
		}
	}
}
