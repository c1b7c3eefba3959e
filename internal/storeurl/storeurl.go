// Package storeurl reads the common parts of the URLs of stores with servers, and keeps
// passwords out of errors. It does not search texts for URLs.
package storeurl

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/internal/quote"
)

// Parameters returns the parameters of the URL. The error says what is wrong with the URL.
func Parameters(u *url.URL) (url.Values, error) {
	if err := Misplaced(u); err != nil {
		return nil, err
	}
	if u.Fragment != "" {
		return nil, errors.New("a # is written %23")
	}
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errors.New("the parameters are not properly escaped")
	}
	return values, nil
}

// Each calls set for each parameter, in the order of the names, until the first error.
func Each(values url.Values, set func(name, value string) error) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if len(values[name]) != 1 || values[name][0] == "" {
			return fmt.Errorf("parameter %s must have one value", quote.Short(name))
		}
		if err := set(name, values[name][0]); err != nil {
			return err
		}
	}
	return nil
}

// Without returns the URL without the given parameters. Everything else stays as it is
// written.
func Without(u *url.URL, names ...string) string {
	rest := *u
	rest.RawQuery = strings.Join(slices.DeleteFunc(strings.Split(u.RawQuery, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return pair == "" || slices.Contains(names, name)
	}), "&")
	return rest.String()
}

// words mark parameters with secret values: their names contain one. MongoDB's
// authMechanismProperties may contain a session token.
var words = []string{"pass", "pwd", "secret", "token", "apikey", "api_key", "mechanismproperties"}

// IsSecret reports whether the value of the parameter of that name may be a secret. The path of
// a file with one is not.
func IsSecret(name string) bool {
	name = strings.ToLower(name)
	return !strings.HasSuffix(name, "file") && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) })
}

var errMisplaced = errors.New("unescaped @: percent-encode the password (/ is %2F, ? is %3F, # is %23), and an @ elsewhere as %40")

// Misplaced refuses a URL with an @ after its servers: it may end a password whose parts were
// parsed as something else, and would be shown.
func Misplaced(u *url.URL) error {
	if strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return errMisplaced
	}
	return nil
}

// Secrets returns the secret parts of a URL, as written and decoded: the password, and the
// values of secret parameters.
func Secrets(u *url.URL) (all []string) {
	add := func(s string) {
		for _, form := range []string{s, url.QueryEscape(s), url.PathEscape(s), url.UserPassword("", s).String()[1:]} {
			if form != "" && !slices.Contains(all, form) {
				all = append(all, form)
			}
		}
	}
	if password, ok := u.User.Password(); ok {
		add(password)
	}
	for name, values := range u.Query() {
		if IsSecret(name) {
			for _, value := range values {
				add(value)
			}
		}
	}
	// A secret that is part of another one comes later.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// Hide returns the text without the secrets of a URL.
func Hide(text string, u *url.URL) string {
	for _, secret := range Secrets(u) {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}
