// Package secret finds passwords in URLs and removes them from texts.
package secret

import (
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/holdfast-go/holdfast/driver"
)

// secretWords match in the names of parameters that may be passwords. MongoDB's
// authMechanismProperties may contain a session token.
const secretWords = "pass|pwd|secret|token|api_?key|mechanismproperties"

var secretWord = compiled("(?i)" + secretWords)

// isSecret reports whether the parameter of that name may be a password. The path of a file
// with a password is not one.
func isSecret(key string) bool {
	return secretWord().MatchString(key) && !strings.HasSuffix(strings.ToLower(key), "_file")
}

// compiled returns a function that compiles the expression at its first call: most
// runs of the program need none.
func compiled(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

// HasPassword reports whether the URL contains a password.
func HasPassword(storeURL string) bool { return len(Passwords(storeURL)) > 0 }

// Passwords returns the passwords in the URL, decoded and as the URL has them.
func Passwords(storeURL string) []string {
	u, err := driver.ParseURL(storeURL)
	if err != nil {
		return nil // no store opens it either
	}
	var found []string
	if password, _ := u.User.Password(); password != "" {
		_, written, _ := strings.Cut(u.User.String(), ":")
		found = append(found, password, written)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		key, written, _ := strings.Cut(pair, "=")
		if written == "" || !isSecret(key) {
			continue
		}
		found = append(found, written)
		if password, err := url.QueryUnescape(written); err == nil {
			found = append(found, password)
		}
	}
	return found
}

// userInfo matches a URL up to its last @: in the word, or in the string in
// quotation marks.
var userInfo = compiled(`("[A-Za-z][A-Za-z0-9+.-]*://)(?:[^"\\]|\\.)*@|([A-Za-z][A-Za-z0-9+.-]*://)[^\s"']*@`)

// secretPair matches a parameter of a URL that may be a password.
var secretPair = compiled(`[?&][^=&\s"']*(?i:` + secretWords + `)[^=&\s"']*=[^&\s"']+`)

// Redact removes passwords from the URLs in a text. Stores never put a password into
// an error, but messages quote arguments, which may be a URL in the wrong place.
func Redact(text string) string {
	text = userInfo().ReplaceAllString(text, "${1}${2}***@")
	return secretPair().ReplaceAllStringFunc(text, func(pair string) string {
		key, _, _ := strings.Cut(pair, "=")
		if !isSecret(key) {
			return pair
		}
		return key + "=***"
	})
}

// anyUserInfo matches all that may be user and password in a text.
var anyUserInfo = compiled(`(?s)://.*@`)

// WithoutURLs removes user and password from a text that quotes an argument without
// saying where it ends.
func WithoutURLs(text string) string { return anyUserInfo().ReplaceAllString(text, "://***@") }
