package location

import (
	"net/url"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// The list of stores is that of those linked in, and says of them what they say
// themselves.
func TestLinkedStores(t *testing.T) {
	var schemes []string
	for _, s := range Kinds {
		schemes = append(schemes, s.Schemes...)
		u := url.URL{Scheme: s.Schemes[0]}
		switch u.Scheme {
		case "sqlite":
			u.Path = filepath.ToSlash(filepath.Join(t.TempDir(), "locks.db"))
		case "mongodb", "postgres":
			u.Host, u.Path = "127.0.0.1:1", "/app" // nobody is asked yet
		case "elasticsearch", "https", "redis":
			u.Host = "127.0.0.1:1"
		}
		store, err := driver.Open(t.Context(), u.String())
		if err != nil {
			t.Fatal(err)
		}
		if got := store.Traits(); got != s.Traits {
			t.Errorf("%v: the list says %+v, the store says %+v", s.Schemes, s.Traits, got)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
	slices.Sort(schemes)
	if !slices.Equal(schemes, driver.Schemes()) {
		t.Errorf("the list has %v, linked in are %v", schemes, driver.Schemes())
	}
}
