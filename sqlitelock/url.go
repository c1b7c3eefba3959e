package sqlitelock

import (
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/quote"
)

// File returns the path of the file in a sqlite URL. A relative path stays relative. File
// does not check whether the file exists. If Open would refuse the URL, the error is
// driver.ErrInvalid.
func File(u *url.URL) (path string, err error) {
	path, _, err = parseURL(u)
	return path, err
}

// parseURL reads sqlite:///absolute/path, sqlite:relative/path and sqlite:~/path. Its
// errors wrap driver.ErrInvalid and repeat only parameters of the URL.
func parseURL(u *url.URL) (path string, opts *Options, err error) {
	path = u.Path
	var errPath error
	if u.Opaque != "" {
		path, errPath = url.PathUnescape(u.Opaque)
	}
	values, errValues := url.ParseQuery(u.RawQuery)
	wrong := ""
	switch opts = new(Options); {
	case u.Host != "" || u.User != nil:
		wrong = "it has no host: write sqlite:///absolute/path or sqlite:relative/path"
	case u.Fragment != "":
		wrong = "a # in the path is written %23"
	case errPath != nil:
		wrong = "the path is not properly escaped"
	case path == "":
		wrong = "it names no file"
	case strings.HasPrefix(path, "~") && !strings.HasPrefix(path, "~/"):
		wrong = "~ stands for your own home folder only: write ~/PATH, or ./~NAME for a file of that name"
	case path == ":memory:":
		wrong = "locks in memory have the URL memory:"
	case strings.IndexByte(path, 0) >= 0:
		wrong = "the path contains a NUL byte"
	case errValues != nil:
		wrong = "the parameters are not properly escaped"
	default:
		wrong = opts.set(values)
	}
	if wrong != "" {
		return "", nil, fmt.Errorf("%w: sqlite URL: %s", driver.ErrInvalid, wrong)
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		folder, err := home()
		if err != nil {
			return "", nil, fmt.Errorf("%w: sqlite URL: %w, which ~ stands for", driver.ErrInvalid, err)
		}
		path = filepath.Join(folder, rest)
	}
	if runtime.GOOS == "windows" && filepath.VolumeName(strings.TrimPrefix(path, "/")) != "" {
		path = strings.TrimPrefix(path, "/") // sqlite:///C:/dir/file.db
	}
	return path, opts, nil
}

// set takes options from the parameters of a URL, and returns an error text or "".
func (o *Options) set(values url.Values) (wrong string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, want := values[name][0], ""
		switch name {
		case "synchronous":
			o.FullSync = value == "full"
			if value != "full" && value != "normal" {
				want = "want normal or full"
			}
		case "busy-timeout":
			var err error
			if o.BusyTimeout, err = time.ParseDuration(value); err != nil || o.BusyTimeout <= 0 {
				want = "want a time above 0 such as 5s"
			}
		case "create":
			o.NoCreate = value == "no"
			if value != "yes" && value != "no" {
				want = "want yes or no"
			}
		case "mode":
			mode, err := strconv.ParseUint(value, 8, 32)
			o.Mode = fs.FileMode(mode)
			if err != nil || !validMode(o.Mode) {
				want = wantMode
			}
		case "network-fs":
			o.AllowNetworkFS = true
			if value != "allow" {
				want = "the only value is allow"
			}
		default:
			return fmt.Sprintf("unknown parameter %s; there are busy-timeout, create, mode, network-fs, synchronous", quote.Short(name))
		}
		switch {
		case len(values[name]) != 1:
			return fmt.Sprintf("parameter %q comes %d times", name, len(values[name]))
		case want != "":
			return fmt.Sprintf("parameter %q is %s, %s", name, quote.Short(value), want)
		}
	}
	return ""
}
