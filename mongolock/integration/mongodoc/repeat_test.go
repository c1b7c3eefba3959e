package mongodoc_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/lab/ask"
)

// What a repeat finds may be on one server alone, which is why the first attempt
// had no answer. So it writes, and is answered when the majority has that. What is
// refused does not.
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
