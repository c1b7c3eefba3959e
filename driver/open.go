package driver

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Opener makes a store from its URL. Its errors must not contain the URL's
// password.
type Opener func(ctx context.Context, u *url.URL) (Store, error)

var schemes struct {
	sync.RWMutex
	openers map[string]Opener
}

// Register makes Open know a scheme. A store calls it from its init function; a
// scheme registered twice panics.
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

// Schemes returns the URL schemes of the stores that are linked in, sorted.
func Schemes() []string {
	schemes.RLock()
	defer schemes.RUnlock()
	names := make([]string, 0, len(schemes.openers))
	for s := range schemes.openers {
		names = append(names, s)
	}
	slices.Sort(names)
	return names
}

// Open makes the store that the URL names. Its errors never repeat the URL,
// which may hold a password.
func Open(ctx context.Context, storeURL string) (Store, error) {
	u, err := url.Parse(storeURL)
	if err != nil {
		// url.Error repeats the whole text.
		return nil, fmt.Errorf("%w: store URL cannot be parsed", ErrInvalid)
	}
	schemes.RLock()
	open := schemes.openers[u.Scheme]
	schemes.RUnlock()
	if open == nil {
		return nil, fmt.Errorf("%w: no store for URL scheme %q; linked in: %s",
			ErrInvalid, u.Scheme, strings.Join(Schemes(), ", "))
	}
	return open(ctx, u)
}
