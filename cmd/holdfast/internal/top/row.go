package top

import (
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// row is a hold or a waiter.
type row struct {
	hold  *holdfast.Status
	place *output.Waiting
}

// is reports whether the other row is of the same hold or waiter, perhaps in a later
// sight.
func (r row) is(other row) bool {
	switch {
	case r.hold != nil:
		return other.hold != nil && r.hold.Ref() == other.hold.Ref()
	case r.place != nil:
		return other.place != nil && r.place.Resource == other.place.Resource && r.place.LockID == other.place.LockID &&
			r.place.Owner == other.place.Owner && r.place.Host == other.place.Host && r.place.Since.Equal(other.place.Since)
	}
	return false
}

// names returns the texts of the varying columns.
func (r row) names() [columns]string {
	if p := r.place; p != nil {
		return [columns]string{resourceColumn: output.PlaceName(*p), ownerColumn: p.Owner, hostColumn: p.Host, commentColumn: output.Order(p.Place)}
	}
	s := r.hold
	return [columns]string{resourceColumn: s.Resource, ownerColumn: s.Owner, hostColumn: s.Host, commentColumn: s.Comment}
}

func (r row) lockID() string {
	if r.place != nil {
		return r.place.LockID
	}
	return r.hold.LockID
}

func (r row) mode() holdfast.Mode {
	if r.place != nil {
		return r.place.Mode
	}
	return r.hold.Mode
}

// since is when the hold was granted, or the waiter came, and what the store's clock was
// when it returned that.
func (r row) since() (t, seen time.Time) {
	if r.place != nil {
		return r.place.Since, r.place.Seen
	}
	return r.hold.Created, r.hold.Seen
}

// has reports whether a name or the comment contains the lower-case text.
func (r row) has(wanted string) bool {
	names := r.names()
	for _, text := range append(names[:], r.lockID(), r.mode().String()) {
		if strings.Contains(strings.ToLower(text), wanted) {
			return true
		}
	}
	return false
}
