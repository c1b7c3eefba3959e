package location

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// Trial returns a store to try instead of a file that does not exist yet: another
// file, in a new folder where that file, or the first missing folder above it, would
// be created.
func (l Location) Trial() (Location, error) {
	file, err := filepath.Abs(l.File)
	if err != nil {
		return Location{}, err
	}
	place := filepath.Dir(file)
	for {
		if _, err := os.Lstat(place); err == nil || filepath.Dir(place) == place {
			break
		}
		place = filepath.Dir(place)
	}
	folder, err := os.MkdirTemp(place, "holdfast-check-*")
	if err != nil {
		return Location{}, err
	}
	u, err := driver.ParseURL(l.URL)
	if err != nil {
		return Location{}, err
	}
	t := Location{File: filepath.Join(folder, "locks.db")}
	u.Opaque, u.RawPath, u.Path = "", "", filepath.ToSlash(t.File)
	if !strings.HasPrefix(u.Path, "/") {
		u.Path = "/" + u.Path // C:/Users/ada/...
	}
	t.URL = u.String()
	return t, nil
}
