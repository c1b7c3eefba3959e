package storeurl_test

import (
	"net/url"
	"testing"

	"github.com/holdfast-go/holdfast/internal/storeurl"
)

func TestHide(t *testing.T) {
	for _, c := range []struct{ url, text, want string }{
		{"x://u:p%2Fw@h/d", "user u, password p/w or p%2Fw", "user u, password xxxxx or xxxxx"},
		{"x://u:p@h/d?proxyPassword=p%20q+r", "p, p q r, p%20q%20r, p+q+r", "xxxxx, xxxxx, xxxxx, xxxxx"},
		{"x://h/d?authMechanismProperties=TOKEN:abc", "mechanism TOKEN:abc", "mechanism xxxxx"},
		{"x://h/d?api_key=k1&token_file=v&passfile=w", "k1 in v or w", "xxxxx in v or w"},
		{"x://u@h/d?name=v", "u at h: v", "u at h: v"},
		{"x://u:@h/d", "empty", "empty"},
	} {
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := storeurl.Hide(c.text, u); got != c.want {
			t.Errorf("%s: %q, want %q", c.url, got, c.want)
		}
	}
}
