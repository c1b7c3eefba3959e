package driver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/internal/quote"
)

// Opener makes a store from its URL. Its errors must not contain the URL's password. It
// parses the URL before it looks at ctx: if ctx has ended, it only checks the URL and sends
// nothing.
type Opener func(ctx context.Context, u *url.URL) (Store, error)

var schemes struct {
	sync.RWMutex
	openers map[string]Opener
}

// Register registers a URL scheme for Open. Stores call it in their init functions. It panics
// if the scheme is registered already.
func Register(scheme string, open Opener) {
	schemes.Lock()
	defer schemes.Unlock()
	if _, twice := schemes.openers[scheme]; twice {
		panic("holdfast: two stores registered the URL scheme " + scheme)
	}
	if schemes.openers == nil {
		schemes.openers = make(map[string]Opener)
	}
	schemes.openers[scheme] = open
}

// Schemes returns the registered URL schemes, sorted.
func Schemes() []string {
	schemes.RLock()
	defer schemes.RUnlock()
	return slices.Sorted(maps.Keys(schemes.openers))
}

// Open makes the store with the given URL. Its errors never contain the URL, which may have a
// password.
func Open(ctx context.Context, storeURL string) (Store, error) {
	u, err := ParseURL(storeURL)
	if err != nil {
		return nil, err
	}
	schemes.RLock()
	open := schemes.openers[u.Scheme]
	schemes.RUnlock()
	switch {
	case open != nil:
	case u.Scheme == "" || u.Scheme == "file" || len(u.Scheme) == 1: // one letter is a Windows drive
		return nil, noURL(storeURL)
	default:
		return nil, unknownScheme(u.Scheme)
	}
	return open(ctx, u)
}

// packages has this module's packages by the URL schemes that they register.
var packages = map[string]string{
	"memory": "memlock", "sqlite": "sqlitelock",
	"mongodb": "mongolock", "mongodb+srv": "mongolock",
	"redis": "redislock", "rediss": "redislock",
	"postgres": "pglock", "postgresql": "pglock",
	"elasticsearch": "eslock/esurl", "elasticsearch+https": "eslock/esurl",
	"opensearch": "eslock/esurl", "opensearch+https": "eslock/esurl",
	"https": "httplock", "http": "httplock", "unix": "httplock",
}

// noURL returns the error for a text without a URL scheme of a store. It may be the path of a
// file, which only SQLite has.
func noURL(text string) error {
	imported := ""
	if !slices.Contains(Schemes(), "sqlite") {
		imported = fmt.Sprintf(` and import _ "github.com/holdfast-go/holdfast/%s"`, packages["sqlite"])
	}
	return fmt.Errorf("%w: the store's URL has no scheme of a store; for a SQLite file write sqlite:%s%s; linked in: %s",
		ErrInvalid, filePath(text), imported, linked())
}

// filePath returns the path of a file in the form of a sqlite URL. For a text that is not
// clearly such a path it returns the word PATH, because the text may have a password.
func filePath(text string) string {
	path := strings.ReplaceAll(text, `\`, "/")
	if rest, ok := strings.CutPrefix(path, "file:"); ok {
		path = strings.TrimPrefix(rest, "//")
	}
	rest := path
	drive := len(path) > 2 && path[1] == ':'
	if drive {
		rest = path[2:]
	}
	first, _, _ := strings.Cut(rest, "/")
	isFile := slices.Contains([]string{".db", ".db3", ".sqlite", ".sqlite3"}, filepath.Ext(rest)) ||
		len(first) < len(rest) && slices.Contains([]string{"", ".", "..", "~"}, first)
	switch {
	case !isFile, len(path) > 64, strings.HasPrefix(rest, "//"), !utf8.ValidString(rest), strings.ContainsAny(rest, "@?#%=&;:'\" "):
		return "PATH"
	case drive && rest[0] == '/':
		return "///" + path
	case drive: // a name with a colon
		return "./" + path
	case first == "":
		return "//" + path
	}
	return path
}

func linked() string { return cmp.Or(strings.Join(Schemes(), ", "), "none") }

func unknownScheme(scheme string) error {
	if name, known := packages[scheme]; known {
		return fmt.Errorf(`%w: the store of URL scheme %q is not linked in: import _ "github.com/holdfast-go/holdfast/%s"; linked in: %s`,
			ErrInvalid, scheme, name, linked())
	}
	return fmt.Errorf("%w: no store for URL scheme %s; linked in: %s", ErrInvalid, quote.Short(scheme), linked())
}

// ParseURL is like url.Parse but accepts a list of servers, host1:port1,host2:port2, as in
// the URLs of some databases. The list becomes the URL's Host. The error wraps ErrInvalid and
// does not contain the URL.
func ParseURL(storeURL string) (*url.URL, error) {
	u, err := parse(storeURL)
	if err != nil {
		// url.Error would contain the whole text
		return nil, fmt.Errorf("%w: store URL cannot be parsed", ErrInvalid)
	}
	return u, nil
}

func parse(storeURL string) (*url.URL, error) {
	scheme, rest, _ := strings.Cut(storeURL, "://")
	end := len(rest)
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		end = i
	}
	user := strings.LastIndexByte(rest[:end], '@') + 1
	list := rest[user:end]
	if !strings.Contains(list, ",") {
		return url.Parse(storeURL)
	}
	for server := range strings.SplitSeq(list, ",") {
		if u, err := url.Parse("scheme://" + server); err != nil || u.Host == "" {
			return nil, ErrInvalid
		}
	}
	u, err := url.Parse(scheme + "://" + rest[:user] + "servers" + rest[end:])
	if err == nil {
		u.Host = list
	}
	return u, err
}
