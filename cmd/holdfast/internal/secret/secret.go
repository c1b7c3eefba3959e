// Package secret finds passwords in URLs and removes them from texts.
package secret

import (
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/storeurl"
)

// compiled returns a function that compiles the expression at its first call: most
// runs of the program need none.
func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// HasPassword reports whether the URL contains a password.
func HasPassword(storeURL string) bool {
	u, err := driver.ParseURL(storeURL)
	return err == nil && len(storeurl.Secrets(u)) > 0
}

// userInfo matches a URL up to its last @: in the word, or in the string in
// quotation marks.
var userInfo = compiled(`("[A-Za-z][A-Za-z0-9+.-]*://)(?:[^"\\]|\\.)*@|([A-Za-z][A-Za-z0-9+.-]*://)[^\s"']*@`)

// pair matches a parameter of a URL.
var pair = compiled(`[?&][^=&\s"']+=[^&\s"']+`)

// Redact removes passwords from the URLs in a text. Stores never put a password into
// an error, but messages quote arguments, which may be a URL in the wrong place.
func Redact(text string) string {
	text = userInfo().ReplaceAllString(text, "${1}${2}***@")
	return pair().ReplaceAllStringFunc(text, func(found string) string {
		name, _, _ := strings.Cut(found, "=")
		if !storeurl.IsSecret(name) {
			return found
		}
		return name + "=***"
	})
}

// anyUserInfo matches all that may be user and password in a text.
var anyUserInfo = compiled(`(?s)://.*@`)

// WithoutURLs removes user and password from a text that quotes an argument without
// saying where it ends.
func WithoutURLs(text string) string { return anyUserInfo().ReplaceAllString(text, "://***@") }
