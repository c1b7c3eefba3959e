package mongokit

import (
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

// Opener opens a store of another layout than mongolock's, in a collection that a URL
// names. parameters has those of Layout.Parameters that the URL has. The store
// disconnects the collection's client when it is closed.
type Opener func(coll *mongo.Collection, parameters map[string]string) (driver.Store, error)

// Layout is a layout that a URL may name, and the URL parameters that it takes.
type Layout struct {
	Parameters []string
	Open       Opener
}

// layouts is written by init functions only.
var layouts = make(map[string]Layout)

// RegisterLayout registers the layout for URLs with layout=name.
func RegisterLayout(name string, l Layout) { layouts[name] = l }

// LayoutNamed returns the layout of that name.
func LayoutNamed(name string) (Layout, bool) {
	l, ok := layouts[name]
	return l, ok
}

// LayoutNames returns the names of the layouts that are linked in.
func LayoutNames() []string { return slices.Sorted(maps.Keys(layouts)) }

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
