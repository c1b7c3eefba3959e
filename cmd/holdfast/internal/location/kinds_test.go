package location

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast"
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

// No store prints the password of its URL, nor does its Client.
func TestStoresPrinted(t *testing.T) {
	const password = "hunTer2-Xyzzy"
	for _, location := range []string{
		"sqlite:" + filepath.ToSlash(filepath.Join(t.TempDir(), "locks.db")), "memory:",
		"mongodb://u:" + password + "@127.0.0.1:1/app", "mongodb://u:" + password + "@127.0.0.1:1/app?layout=ttl",
		"postgres://u:" + password + "@127.0.0.1:1/app", "redis://u:" + password + "@127.0.0.1:1/0",
		"elasticsearch://u:" + password + "@127.0.0.1:1", "https://127.0.0.1:1",
	} {
		store, err := driver.Open(t.Context(), location)
		if err != nil {
			t.Fatal(err)
		}
		client := holdfast.New(store, nil)
		for _, value := range []any{store, client, struct{ In any }{store}} {
			for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
				if text := fmt.Sprintf(form, value); strings.Contains(text, password) || strings.Contains(text, fmt.Sprintf("%x", password)) {
					t.Errorf("%T prints by %s: %s", value, form, text)
				}
			}
			for _, handler := range []func(io.Writer) slog.Handler{
				func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
				func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
			} {
				var log strings.Builder
				slog.New(handler(&log)).Info("", "value", value)
				if strings.Contains(log.String(), password) {
					t.Errorf("%T is logged as %s", value, log.String())
				}
			}
		}
		if err := errors.Join(client.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	}
}
