package sqlitelock

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// parameters are those of the URL, each setting one option.
var parameters = map[string]func(o *Options, value string) error{
	"synchronous": func(o *Options, value string) error {
		switch value {
		case "normal", "full":
			o.FullSync = value == "full"
			return nil
		}
		return fmt.Errorf("is %q, want normal or full", value)
	},
	"busy-timeout": func(o *Options, value string) (err error) {
		if o.BusyTimeout, err = time.ParseDuration(value); err != nil || o.BusyTimeout <= 0 {
			return fmt.Errorf("is %q, want a time above 0 such as 5s", value)
		}
		return nil
	},
	"network-fs": func(o *Options, value string) error {
		if value != "allow" {
			return fmt.Errorf("is %q, the only value is allow", value)
		}
		o.AllowNetworkFS = true
		return nil
	},
}

// File returns the path of the file that a sqlite URL names, relative as it stands
// there, without looking for it. A URL that Open would refuse is driver.ErrInvalid.
func File(u *url.URL) (path string, err error) {
	path, _, err = parseURL(u)
	return path, err
}

// parseURL reads sqlite:///absolute/path and sqlite:relative/path. Its errors
// wrap driver.ErrInvalid and repeat of the URL no more than parameters.
func parseURL(u *url.URL) (path string, opts *Options, err error) {
	fail := func(format string, args ...any) (string, *Options, error) {
		return "", nil, fmt.Errorf("%w: sqlite URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
	}
	switch {
	case u.Host != "" || u.User != nil:
		return fail("it has no host: write sqlite:///absolute/path or sqlite:relative/path")
	case u.Fragment != "":
		return fail("a # in the path is written %%23")
	}
	path = u.Path
	if u.Opaque != "" {
		if path, err = url.PathUnescape(u.Opaque); err != nil {
			return fail("the path is not properly escaped")
		}
	}
	switch {
	case path == "":
		return fail("it names no file")
	case path == ":memory:":
		return fail("locks in memory have the URL memory:")
	case strings.IndexByte(path, 0) >= 0:
		return fail("the path contains a NUL byte")
	}
	if runtime.GOOS == "windows" && filepath.VolumeName(strings.TrimPrefix(path, "/")) != "" {
		path = strings.TrimPrefix(path, "/") // sqlite:///C:/dir/file.db
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fail("the parameters are not properly escaped")
	}
	opts = new(Options)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		set, ok := parameters[name]
		switch {
		case !ok:
			return fail("unknown parameter %q; there are %s", name,
				strings.Join(slices.Sorted(maps.Keys(parameters)), ", "))
		case len(values[name]) != 1:
			return fail("parameter %q comes %d times", name, len(values[name]))
		}
		if err := set(opts, values[name][0]); err != nil {
			return fail("parameter %q %v", name, err)
		}
	}
	return path, opts, nil
}
