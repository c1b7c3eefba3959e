// Package urlsecret keeps the passwords of store URLs out of errors. It does not look
// for URLs in a text.
package urlsecret

import (
	"net/url"
	"slices"
	"strings"
)

// words are in the names of parameters whose values nobody may read.
var words = []string{"password", "authmechanismproperties"}

// Of returns the parts of a URL that nobody may read, as they are written and as
// they are meant: the password, and the values of parameters that are about one.
func Of(u *url.URL) (all []string) {
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
	// What is part of another goes later.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}

// Hide is the text without the secrets of a URL.
func Hide(text string, u *url.URL) string {
	for _, secret := range Of(u) {
		text = strings.ReplaceAll(text, secret, "xxxxx")
	}
	return text
}
