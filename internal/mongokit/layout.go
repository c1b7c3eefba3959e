package mongokit

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

// Layout is a layout other than mongolock's, which a URL may name.
type Layout struct {
	// Timeout says that URLs may have the parameter timeout.
	Timeout bool
	// Open opens a store in a collection that a URL names. timeout is 0 if the URL has
	// none. The store disconnects the collection's client when it is closed.
	Open func(coll *mongo.Collection, timeout time.Duration) driver.Store
}

// Layouts has the layouts that are linked in, by the names that URLs have for them. It is
// written by init functions only.
var Layouts = make(map[string]Layout)

// KindOf returns the name that URLs have for the layout of a document: "" for the
// layout of mongolock. ok is false if the document could be of any.
func KindOf(doc bson.Raw) (name string, ok bool) {
	has := func(field string) bool { return !Absent(doc.Lookup(field)) }
	switch {
	case has("resource") && (has("exclusive") || has("shared")):
		return "", true
	case has("resource"):
		return "", false
	case has("obtained_at"):
		return "value", true
	case has("locked"):
		return "flag", true
	case has("lockedAt"):
		return "ttl", true
	}
	return "", false
}
