package mongolock_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// A resource has a thousand holders: each of them can renew and release, one more is
// granted, and the next is refused.
func TestThousandHolders(t *testing.T) {
	coll := newCollection(t)
	s := newStore(t, coll)
	const holders = 1000
	// The first is granted and shows the form of a lock. The others are inserted
	// directly, because a thousand grants take long on an emulator.
	first := ask.Granted(t, s, ask.Shared(ask.Request("r", "holder 0"), holders+1))
	doc := raw(t, coll, "r")
	template, err := doc.LookupErr("shared", "locks", "0")
	if err != nil {
		t.Fatal(err)
	}
	refs := []driver.HoldRef{first}
	locks := bson.A{template}
	for i := 1; i < holders; i++ {
		ref := driver.HoldRef{
			Resource: "r", LockID: fmt.Sprint("holder ", i), HoldID: driver.NewHoldID(), Token: first.Token + uint64(i),
		}
		var lock bson.D
		if err := bson.Unmarshal(template.Value, &lock); err != nil {
			t.Fatal(err)
		}
		for j := range lock {
			switch lock[j].Key {
			case "_id":
				lock[j].Value = bson.NewObjectID()
			case "lockId":
				lock[j].Value = ref.LockID
			case "holdId":
				lock[j].Value = ref.HoldID.String()
			case "token":
				lock[j].Value = int64(ref.Token)
			}
		}
		refs, locks = append(refs, ref), append(locks, lock)
	}
	last := refs[holders-1]
	if _, err := coll.UpdateOne(t.Context(), named("r"), obj("$set", obj(
		"shared.locks", locks, "shared.count", holders, "fence", int64(last.Token),
	))); err != nil {
		t.Fatal(err)
	}

	if _, err := s.Acquire(t.Context(), ask.Request("r", "late")); !errors.Is(err, driver.ErrHeld) {
		t.Fatalf("a writer among readers: error %v", err)
	}
	more := ask.Granted(t, s, ask.Shared(ask.Request("r", "one more"), holders+1))
	if more.Token <= last.Token {
		t.Errorf("token %d follows token %d", more.Token, last.Token)
	}
	if e := ask.Refused(t, s, ask.Shared(ask.Request("r", "late"), holders+1)); e.LimitDiffers || len(e.Holders) != holders+1 {
		t.Errorf("one too many: %d holders, their limit differs: %v", len(e.Holders), e.LimitDiffers)
	}
	renew(t, s, []driver.RenewRequest{{HoldRef: refs[500], TTL: 5 * time.Hour}, {HoldRef: last, TTL: 5 * time.Hour}}, -1)
	release(t, s, true, refs[500])
	n := 0
	for st, err := range s.List(t.Context(), driver.Filter{Resource: "r"}) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; st.Ref() == last && st.Left < 4*time.Hour {
			t.Errorf("%v left of the renewed hold", st.Left)
		}
	}
	if count := raw(t, coll, "r").Lookup("shared", "count").AsInt64(); n != holders || count != holders {
		t.Errorf("%d are listed, count is %d, want %d", n, count, holders)
	}
}
