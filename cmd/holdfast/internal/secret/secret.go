// Package secret finds the passwords in URLs and takes them out of texts.
package secret

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// secretWords are in the names of parameters that may be a password. MongoDB's
// authMechanismProperties may have a session token.
const secretWords = "pass|pwd|secret|token|api_?key|mechanismproperties"

var secretKey = regexp.MustCompile("(?i)" + secretWords)

// HasPassword reports that who sees the URL may learn a password.
func HasPassword(storeURL string) bool { return len(Passwords(storeURL)) > 0 }

// Passwords are those in the URL, as they are and as the URL has them.
func Passwords(storeURL string) []string {
	u, err := driver.ParseURL(storeURL)
	if err != nil {
		return nil // no store is opened with it either
	}
	var found []string
	if password, _ := u.User.Password(); password != "" {
		_, written, _ := strings.Cut(u.User.String(), ":")
		found = append(found, password, written)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		key, written, _ := strings.Cut(pair, "=")
		if written == "" || !secretKey.MatchString(key) {
			continue
		}
		found = append(found, written)
		if password, err := url.QueryUnescape(written); err == nil {
			found = append(found, password)
		}
	}
	return found
}

// userInfo is what stands before the @ of a URL: to the end of the word, or of the
// string in quotation marks.
var userInfo = regexp.MustCompile(`("[A-Za-z][A-Za-z0-9+.-]*://)(?:[^"\\]|\\.)*@|([A-Za-z][A-Za-z0-9+.-]*://)[^\s"']*@`)

// secretPair is a parameter of a URL that may be a password.
var secretPair = regexp.MustCompile(`([?&][^=&\s"']*(?i:` + secretWords + `)[^=&\s"']*=)[^&\s"']+`)

// Redact takes passwords out of the URLs in a text. Stores never put theirs into
// an error; but a URL in the wrong place of the command line would be repeated.
func Redact(text string) string {
	return secretPair.ReplaceAllString(userInfo.ReplaceAllString(text, "${1}${2}***@"), "${1}***")
}

// anyUserInfo is all that may be user and password in a text.
var anyUserInfo = regexp.MustCompile(`(?s)://.*@`)

// WithoutURLs takes user and password out of a text that quotes one argument, of
// which nobody knows where it ends.
func WithoutURLs(text string) string { return anyUserInfo.ReplaceAllString(text, "://***@") }
