package location

import (
	"slices"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
	_ "github.com/holdfast-go/holdfast/eslock/esurl" // its URLs
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/mongolock"
	_ "github.com/holdfast-go/holdfast/mongolock/compat/mongodoc" // layouts in mongodb's URLs
	"github.com/holdfast-go/holdfast/pglock"
	"github.com/holdfast-go/holdfast/redislock"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// Kind is a kind of store.
type Kind struct {
	Schemes []string
	Form    string // of its URLs
	Traits  driver.Traits
}

// Varies reports whether it is a server, which promises what the store behind it does. Its
// Traits are the weakest.
func (k Kind) Varies() bool { return slices.Contains(k.Schemes, "https") }

// EndsWithProcess reports whether the locks are no longer there when this process ends.
func (k Kind) EndsWithProcess() bool { return k.Traits.Reach == driver.Process && !k.Varies() }

// Kinds lists the kinds of store that every holdfast has. A program can add others,
// which it registers with package driver.
var Kinds = []Kind{
	{[]string{"sqlite"}, "sqlite:PATH, /PATH, ./PATH or ~/PATH; local is this user's", sqlitelock.Traits()},
	{[]string{"mongodb", "mongodb+srv"}, "mongodb://HOSTS/DATABASE?collection=NAME or mongodb+srv:", mongolock.Traits()},
	{[]string{"elasticsearch", "elasticsearch+https", "opensearch", "opensearch+https"},
		"elasticsearch://HOSTS/?index=NAME, opensearch://, or either with +https", eslock.Traits()},
	{[]string{"postgres", "postgresql"}, "postgres://HOSTS/DATABASE?schema=NAME", pglock.Traits()},
	{[]string{"redis", "rediss"}, "redis://HOSTS/DATABASE, or rediss: for TLS", redislock.Traits()},
	{[]string{"https", "http", "unix"}, "https://HOST, http://127.0.0.1:PORT or unix:///PATH of holdfast serve", new(httplock.Store).Traits()},
	{[]string{"memory"}, "memory: in Go programs only, ends with the process", memlock.Traits()},
}

// kindOf returns the kind of the store with that scheme, a Kind of zeros for an unknown one.
func kindOf(scheme string) Kind {
	for _, k := range Kinds {
		if slices.Contains(k.Schemes, scheme) {
			return k
		}
	}
	return Kind{}
}
