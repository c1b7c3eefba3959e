package server

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// A lock ID belongs to its caller: the store gets it with the caller's name before it. So
// nobody can renew or release the hold of another, even if he knows its IDs, and the store
// decides that in the statement that it runs anyway.

// ownID returns the lock ID for the store.
func (x *exchange) ownID(lockID string) string {
	if name := x.caller.Name(); name != "" && lockID != "" {
		return name + ":" + lockID
	}
	return lockID
}

// isOwn reports whether a lock ID of the store is of a caller that has a name.
func (x *exchange) isOwn(stored string) bool {
	name := x.caller.Name()
	return name != "" && strings.HasPrefix(stored, name+":")
}

// shownID returns the lock ID as the caller is shown it: his own ones as he wrote them.
func (x *exchange) shownID(stored string) string {
	if x.isOwn(stored) {
		return stored[len(x.caller.Name())+1:]
	}
	return stored
}

// ownPlace returns the ID of a place for the store, which is a one-way hash of the caller's
// name and the ID that it gave: nobody can take over or give up the place of another, and who
// sees it in the store learns no hold ID from it, which the place of a wait is made of. All
// servers make the same of it.
func (x *exchange) ownPlace(id driver.PlaceID) driver.PlaceID {
	if id.IsZero() {
		return id
	}
	sum := sha256.Sum256([]byte("holdfast place:" + x.caller.Name() + ":" + id.String()))
	return driver.PlaceID(sum[:len(id)])
}

// owner returns the owner for the store: nobody can pass for another.
func (x *exchange) owner(given string) string {
	switch name := x.caller.Name(); {
	case name == "":
		return given
	case given == "":
		return name
	default:
		return name + "/" + given
	}
}

// reserved is the resource in which the store's ID is kept. Requests cannot name it.
const reserved = driver.InternalPrefix + "server"

var errReserved = fmt.Errorf("%w: the resource %q is the server's own", driver.ErrInvalid, reserved)

// validName checks a resource that a request names.
func validName(resource string) error {
	if resource == reserved {
		return errReserved
	}
	return driver.ValidResource(resource)
}

// Reserved reports whether the resource is the server's own. Lists leave it out, and no
// request may name it.
func Reserved(resource string) bool { return resource == reserved }
