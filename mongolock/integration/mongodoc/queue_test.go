package mongodoc_test

import (
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/ask"
)

// These layouts have no queue. Giving up a place releases no hold, not even one of the
// same lock ID.
func TestPlacesAreIgnored(t *testing.T) {
	each(t, func(t *testing.T, l layout) {
		s := start(t, l.open(newCollection(t)))
		ref := ask.Granted(t, s, ask.Request("r", "a"))
		leaving := driver.ReleaseRequest{HoldRef: driver.HoldRef{Resource: "r", LockID: "a"}, Place: driver.PlaceID{1}}
		for n := 1; n <= 2; n++ {
			rs, err := s.Release(t.Context(), []driver.ReleaseRequest{leaving, leaving}[:n])
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range rs {
				if r != (driver.ReleaseResult{}) {
					t.Errorf("place %d of %d: %+v", i, n, r)
				}
			}
		}
		with := driver.ReleaseRequest{HoldRef: ref, Place: driver.PlaceID{1}}
		if rs, err := s.Release(t.Context(), []driver.ReleaseRequest{with}); err != nil || !rs[0].Found {
			t.Errorf("%+v, error %v", rs, err)
		}
	})
}
