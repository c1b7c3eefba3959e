package acquire

import (
	"testing"

	"github.com/holdfast-go/holdfast"
)

func TestDescribe(t *testing.T) {
	ada := holdfast.Status{LockID: "id"}
	ada.Owner, ada.Host, ada.Comment = "ada", "web1", "nightly"
	nobody := holdfast.Status{LockID: "id"}
	for want, holders := range map[string][]holdfast.Status{
		`"r" is held`:                                     nil,
		`"r" is held by ada on web1 (nightly)`:            {ada},
		`"r" is held by ada on web1 (nightly) and 2 more`: {ada, nobody, nobody},
		`"r" is held by lock ID id`:                       {nobody},
	} {
		if got := describe(&holdfast.HeldError{Resource: "r", Holders: holders}); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
