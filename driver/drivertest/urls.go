package drivertest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// RefusesURLs checks that driver.Open refuses each URL with an error that matches
// driver.ErrInvalid and contains the given text. No error may contain a secret: the word
// "secret", or one of the given secrets.
func RefusesURLs(t *testing.T, says map[string]string, more ...string) {
	t.Helper()
	for url, want := range says {
		if want == "" {
			t.Errorf("%s: no text is given", url)
		}
		s, err := driver.Open(t.Context(), url)
		if err == nil {
			t.Errorf("driver.Open accepted %s", url)
			_ = s.Close()
			continue
		}
		if !errors.Is(err, driver.ErrInvalid) || !strings.Contains(filepath.ToSlash(err.Error()), want) {
			t.Errorf("%s: %v, want ErrInvalid that says %q", url, err, want)
		}
		for _, secret := range append(more, "secret") {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error repeats %q: %v", url, secret, err)
			}
		}
	}
}
