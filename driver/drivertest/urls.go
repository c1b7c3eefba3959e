package drivertest

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// RefusesURLs checks that driver.Open refuses each of the URLs with an error that is
// driver.ErrInvalid and has the text given for it. No error may repeat a secret: these
// are the word "secret" in a URL, and more if there are.
func RefusesURLs(t *testing.T, says map[string]string, more ...string) {
	t.Helper()
	for url, want := range says {
		if want == "" {
			t.Errorf("%s: any error would do", url)
		}
		s, err := driver.Open(t.Context(), url)
		if err == nil {
			t.Errorf("%s was opened", url)
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
