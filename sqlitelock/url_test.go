package sqlitelock

import (
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
)

func TestParseURL(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, c := range []struct {
		url, path string
		opts      Options
	}{
		{"sqlite:///var/lib/x.db", "/var/lib/x.db", Options{}},
		{"sqlite:/var/lib/x.db", "/var/lib/x.db", Options{}},
		{"sqlite:x.db", "x.db", Options{}},
		{"sqlite:../dir/x.db", "../dir/x.db", Options{}},
		{"sqlite:with%20space%23%3F.db", "with space#?.db", Options{}},
		{"sqlite:///with%20space%25.db", "/with space%.db", Options{}},
		{"sqlite:x.db?", "x.db", Options{}},
		{"sqlite:x.db?synchronous=normal", "x.db", Options{}},
		{"sqlite:x.db?synchronous=full", "x.db", Options{FullSync: true}},
		{"sqlite:~/dir/x.db", filepath.Join(home, "dir", "x.db"), Options{}},
		{"sqlite:./~/x.db", "./~/x.db", Options{}},
		{"sqlite:x.db?create=no", "x.db", Options{NoCreate: true}},
		{"sqlite:x.db?create=yes&mode=0660", "x.db", Options{Mode: 0o660}},
		{"sqlite:x.db?mode=600", "x.db", Options{Mode: 0o600}},
		{"sqlite:x.db?busy-timeout=1m30s", "x.db", Options{BusyTimeout: 90 * time.Second}},
		{"sqlite:x.db?network-fs=allow&synchronous=full", "x.db", Options{AllowNetworkFS: true, FullSync: true}},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		path, opts, err := parseURL(u)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		if path != c.path || *opts != c.opts {
			t.Errorf("%s: %q %+v, want %q %+v", c.url, path, *opts, c.path, c.opts)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	drivertest.RefusesURLs(t, map[string]string{
		"sqlite://x.db":                               "no host",
		"sqlite://user:secret@host/x.db":              "no host",
		"sqlite:":                                     "names no file",
		"sqlite:?synchronous=full":                    "names no file",
		"sqlite:~ada/x.db":                            "your own home folder",
		"sqlite::memory:":                             "memory:",
		"sqlite:x.db#part":                            "%23",
		"sqlite:x%zz.db":                              "escaped",
		"sqlite:x%00.db":                              "NUL",
		"sqlite:x.db?cache=shared":                    `unknown parameter "cache"`,
		"sqlite:x.db?create=never":                    `"create" is "never"`,
		"sqlite:x.db?mode=ro":                         `"mode" is "ro"`,
		"sqlite:x.db?mode=0640":                       `"mode" is "0640"`,
		"sqlite:x.db?mode=0770":                       `"mode" is "0770"`,
		"sqlite:x.db?mode=0060":                       `"mode" is "0060"`,
		"sqlite:x.db?mode=02660":                      `"mode" is "02660"`,
		"sqlite:x.db?synchronous=off":                 `"synchronous" is "off"`,
		"sqlite:x.db?synchronous":                     `"synchronous" is ""`,
		"sqlite:x.db?network-fs=deny":                 `"network-fs" is "deny"`,
		"sqlite:x.db?busy-timeout=5":                  `"busy-timeout" is "5"`,
		"sqlite:x.db?busy-timeout=-1s":                `"busy-timeout" is "-1s"`,
		"sqlite:x.db?synchronous=a;b":                 "escaped",
		"sqlite:x.db?busy-timeout=1s&busy-timeout=2s": "2 times",
	})
}

// Every URL is accepted, or refused as invalid. SQLite opens exactly the file of an
// accepted URL.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"sqlite:///var/lib/x.db", "sqlite:x.db?synchronous=full", "sqlite:a%20b%23?network-fs=allow", "sqlite:%3f%25.db",
		"sqlite:x.db?busy-timeout=1h&x=", "sqlite://h/x", "sqlite:%", "sqlite:a?b?c#d", "sqlite:///%00",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "sqlite" {
			return
		}
		path, opts, err := parseURL(u)
		if err != nil {
			if !errors.Is(err, driver.ErrInvalid) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if path == "" || opts == nil || opts.BusyTimeout < 0 {
			t.Fatalf("%q: %q %+v", text, path, opts)
		}
		name := dsn("/"+path, opts.FullSync, 0)
		back, err := url.Parse(name)
		if err != nil || back.Path != "/"+path || strings.Count(name, "?") != 1 {
			t.Fatalf("%q: the driver gets %q", text, name)
		}
	})
}
