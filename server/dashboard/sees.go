package dashboard

import (
	"errors"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/access"
)

// isOwn reports whether a hold with that lock ID is the caller's.
func (v *visit) isOwn(resource, lockID string) bool {
	name := v.caller.Name()
	return name != "" && strings.HasPrefix(lockID, name+":") && v.caller.May(access.Lock, resource)
}

// looks reports whether the caller may see the resource.
func (v *visit) looks(resource string) bool {
	return v.caller.May(access.Look, resource) || v.caller.May(access.Force, resource)
}

// seesPart reports whether the caller may see only some resources: what a page says of all
// that it shows is then said of these.
func (v *visit) seesPart() bool {
	return !v.caller.MayAll(access.Look) && !v.caller.MayAll(access.Force)
}

// reasonOf says why a look has failed. What a store says of itself is for the log: it may have
// an address or the IDs of others.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, driver.ErrDamaged):
		return "A record in it cannot be understood: see the server's log."
	case errors.Is(err, driver.ErrUnusable):
		return "It cannot be used until somebody mends it: see the server's log."
	}
	return ""
}
