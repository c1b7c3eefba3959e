package location

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
)

// No part of a password is said, wherever it stands in the URL and whatever a
// store repeats of it.
func TestNoPasswordIsSaid(t *testing.T) {
	for _, storeURL := range []string{
		"store://user:hunter2@host/0",
		"store://user:hunter2%2F7777@host/0",
		"store://user:hunter2@7777@host/0",
		"store://user:7777/hunter2@host/0",
		"store://user:7777?hunter2@host/0",
		"store://user:7777#hunter2@host/0",
		"store://user:hunter2/7777@host/0",
		"store://user:hunter2 7777@host/0",
		"store://user:hunter2\"7777@host/0",
		"store://user:hunter2%@host/0",
		"store://user:hunter2\n7777@host/0",
		"store://host/0?password=hunter2&api_key=7777",
		"store://user:hunter2",
		"store:user:hunter2@host",
		"store:/user:7777@hunter2",
		"user:hunter2@host",
		"sqlite://user:hunter2@host/x.db",
		"sqlite://user:hunter2@/x.db",
		"sqlite://user:7777/hunter2@host/x.db",
		"sqlite:///x.db?password=hunter2",
		"memory://user:hunter2@host",
		"https://user:hunter2@host",
		"https://host/?token=hunter2",
		"unix://user:hunter2@host/a.sock",
	} {
		var said []error
		l, err := Locate(storeURL)
		if err == nil {
			_, err = l.Open(t.Context())
			u, _ := url.Parse(storeURL)
			password, _ := u.User.Password()
			said = append(said,
				l.Failure(errors.New("no answer")),
				l.Failure(errors.New("cannot log in as "+u.User.String())),
				l.Failure(fmt.Errorf("wrong password %q; parameters %s", password, u.RawQuery)))
		}
		if err == nil {
			t.Errorf("%q was opened", storeURL)
			continue
		}
		for _, err := range append(said, err) {
			if text := secret.Redact(err.Error()); strings.Contains(text, "hunter2") || strings.Contains(text, "7777") {
				t.Errorf("%q: said was %s", storeURL, text)
			}
		}
	}
}
