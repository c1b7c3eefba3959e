package location

import (
	"os"
	"path/filepath"
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
	t := Location{File: filepath.Join(folder, "locks.db")}
	trial := fileURL(t.File)
	trial.RawQuery = l.parsed().RawQuery
	t.URL = trial.String()
	return t, nil
}
