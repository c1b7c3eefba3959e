package mongodoc_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/ask"
)

// The hold that a repeat finds may be on one server alone, so that the first attempt was
// not answered. So a repeat writes, and is answered when the majority has the write. A
// refusal does not write.
func TestRepeatWrites(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		coll := newCollection(t)
		s := start(t, l.open(coll))
		q := ask.Request("r", "a")
		touched := func() int64 { return raw(t, coll, "r").Lookup("holdfast", "touched").AsInt64() }
		ask.Granted(t, s, q)
		before, shown := touched(), raw(t, coll, "r").Lookup("holdfast", "shown")
		ask.Granted(t, s, q)
		after := touched()
		if after <= before || !raw(t, coll, "r").Lookup("holdfast", "shown").Equal(shown) {
			t.Errorf("touched was %d and is %d, the document is %v", before, after, raw(t, coll, "r"))
		}
		if _, err := s.Acquire(t.Context(), ask.Request("r", "b")); err == nil {
			t.Fatal("granted twice")
		}
		if again := touched(); again != after {
			t.Error("a refusal has written the document")
		}
	})
}
