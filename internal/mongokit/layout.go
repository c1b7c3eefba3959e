package mongokit

import (
	"maps"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/holdfast-go/holdfast/driver"
)

// Opener makes a store of another layout than mongolock's in a collection that is
// named by a URL. The parameters are those that it asked for, as far as they were
// given. The client is disconnected when the store is closed.
type Opener func(coll *mongo.Collection, parameters map[string]string) (driver.Store, error)

// Layout is one that a URL may name, and the parameters that it has beside.
type Layout struct {
	Parameters []string
	Open       Opener
}

// layouts are written by init functions alone.
var layouts = make(map[string]Layout)

// RegisterLayout makes URLs with layout=name known.
func RegisterLayout(name string, l Layout) { layouts[name] = l }

// LayoutNamed returns the layout of that name.
func LayoutNamed(name string) (Layout, bool) {
	l, ok := layouts[name]
	return l, ok
}

// LayoutNames are those that are linked in.
func LayoutNames() []string { return slices.Sorted(maps.Keys(layouts)) }

// KindOf says of a document in which layout it is, as a URL names that; "" for that
// of mongolock. ok is false if it could be of any.
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
