package mongokit

import (
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

// Layout is a layout other than mongolock's. A URL may name it.
type Layout struct {
	// Timeout says whether URLs may have the parameter timeout.
	Timeout bool
	// Open opens a store in a collection that a URL names. timeout is 0 if the URL has no
	// such parameter. Closing the store disconnects the collection's client.
	Open func(coll *mongo.Collection, timeout time.Duration) driver.Store
}

// Layouts has the linked layouts, by their names in URLs. Only init functions write it.
var Layouts = make(map[string]Layout)

// KindOf returns the name of a document's layout in URLs, "" for the layout of mongolock.
// ok is false if the document fits any layout.
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
