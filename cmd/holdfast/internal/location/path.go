package location

import (
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
)

// isPath reports whether the value of --store is the path of a SQLite file instead of a
// URL. // begins what is left of a URL without its scheme, which may hold a password.
func isPath(named string) bool {
	if runtime.GOOS == "windows" {
		if filepath.VolumeName(named) != "" {
			return !strings.HasPrefix(named, "//")
		}
		named = strings.ReplaceAll(named, `\`, "/")
	}
	for _, start := range []string{"/", "./", "../", "~/"} {
		if strings.HasPrefix(named, start) {
			return !strings.HasPrefix(named, "//")
		}
	}
	return false
}

// fileURL returns the URL of a SQLite file.
func fileURL(path string) *url.URL {
	absolute := filepath.IsAbs(path)
	path = filepath.ToSlash(path)
	switch {
	case !absolute: // relative, or in the home folder
		return &url.URL{Scheme: "sqlite", Opaque: (&url.URL{Path: path}).EscapedPath()}
	case !strings.HasPrefix(path, "/"):
		path = "/" + path // C:/Users/ada/...
	}
	return &url.URL{Scheme: "sqlite", Path: path}
}
