package location

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file that does not exist yet is tried in the folder where it, or the first
// missing folder above it, would be created, with the same parameters.
func TestTrial(t *testing.T) {
	home := t.TempDir()
	t.Chdir(home)
	if err := os.Mkdir("a % b?#", 0o700); err != nil {
		t.Fatal(err)
	}
	slashed := filepath.ToSlash(home)
	if !strings.HasPrefix(slashed, "/") {
		slashed = "/" + slashed
	}
	for storeURL, folder := range map[string]string{
		"sqlite:locks.db": home,
		"sqlite:new/folder/locks.db?synchronous=full":        home,
		"sqlite://" + slashed + "/new/locks.db":              home,
		"sqlite:a%20%25%20b%3F%23/locks.db":                  filepath.Join(home, "a % b?#"),
		"sqlite:a%20%25%20b%3F%23/x%2Fy.db?network-fs=allow": filepath.Join(home, "a % b?#"),
	} {
		t.Run(storeURL, func(t *testing.T) {
			where := locate(t, storeURL)
			if !where.Empty() {
				t.Fatalf("%s is there", where.File)
			}
			trial, err := where.Trial()
			if err != nil {
				t.Fatal(err)
			}
			if got := filepath.Dir(filepath.Dir(trial.File)); got != folder {
				t.Errorf("tried out in %s, want %s", got, folder)
			}
			again, err := Locate(trial.URL)
			if err != nil || again.File != trial.File {
				t.Errorf("%s is the URL of %s (error %v), want %s", trial.URL, again.File, err, trial.File)
			}
			if _, parameters, _ := strings.Cut(storeURL, "?"); !strings.HasSuffix(trial.URL, "?"+parameters) && parameters != "" {
				t.Errorf("%s has not the parameters of %s", trial.URL, storeURL)
			}
		})
	}
	t.Run("link to nothing", func(t *testing.T) {
		if err := os.Symlink("nowhere", "link"); err != nil {
			t.Skip(err)
		}
		if (Location{File: "link"}).Empty() {
			t.Error("it would be made")
		}
	})
}
