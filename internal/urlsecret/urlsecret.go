// Package urlsecret keeps the passwords of store URLs out of errors. It does not look
// for URLs in a text.
package urlsecret

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// words are in the names of parameters whose values are secret.
var words = []string{"password", "authmechanismproperties"}

var errMisplaced = errors.New("unescaped @: percent-encode the password (/ is %2F, ? is %3F, # is %23), and an @ elsewhere as %40")

// Misplaced refuses a URL with an @ after its servers: it may end a password that was
// parsed as other parts, and would be repeated with them.
func Misplaced(u *url.URL) error {
	if strings.Contains(u.EscapedPath()+u.RawQuery+u.EscapedFragment(), "@") {
		return errMisplaced
	}
	return nil
}

// of returns the secret parts of a URL, as they are written and as they are meant:
// the password, and the values of parameters that are about one.
func of(u *url.URL) (all []string) {
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
		name = strings.ToLower(name)
		if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(name, word) }) {
			for _, value := range values {
				add(value)
			}
		}
	}
	// A secret that is part of another goes later.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// Hide returns the text without the secrets of a URL.
func Hide(text string, u *url.URL) string {
	for _, secret := range of(u) {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}
