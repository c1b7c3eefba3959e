package access

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/server/internal/follow"
)

// ofBrowser returns a request with that cookie.
func ofBrowser(t *testing.T, value string) *http.Request {
	t.Helper()
	r := request(t)
	r.Header.Del("Authorization")
	r.AddCookie(&http.Cookie{Name: sessionCookie, Value: value})
	return r
}

// signIn returns the value of the cookie of the caller with the token.
func signIn(t *testing.T, f *File, token, want string) string {
	t.Helper()
	c, name, err := f.SignIn(token)
	if err != nil || name != want {
		t.Fatalf("caller %q, error %v", name, err)
	}
	if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 8*60*60 || strings.Contains(c.Value, token) {
		t.Errorf("the cookie is %v", c)
	}
	return c.Value
}

func unknown(t *testing.T, f *File, value string) {
	t.Helper()
	if c, err := f.IdentifyBrowser(ofBrowser(t, value)); !errors.Is(err, ErrAnonymous) {
		t.Errorf("the cookie %q is of %v, error %v", value, c, err)
	}
}

func TestSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "auth.json")
		key := `"sessionKey": "` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `", `
		text := func(key string, entries ...string) string { return "{" + key + callers(entries...)[1:] }
		token, entry := newCaller(t, "a.b-1", "r")
		other, otherEntry := newCaller(t, "a", "r")
		stranger, _ := newCaller(t, "a", "r")
		write(t, path, text(key, entry, otherEntry))
		f := open(t, path, nil)
		value := signIn(t, f, token, "a.b-1")
		c, err := f.IdentifyBrowser(ofBrowser(t, value))
		if err != nil || c.Name() != "a.b-1" || !c.May(Lock, "r") {
			t.Fatalf("caller %v, error %v", c, err)
		}
		if _, err := f.Identify(ofBrowser(t, value)); !errors.Is(err, ErrAnonymous) {
			t.Errorf("the cookie counts where only tokens do: %v", err)
		}
		// A token in the request counts, whatever the cookie says.
		both := request(t, "Bearer "+other)
		both.AddCookie(&http.Cookie{Name: sessionCookie, Value: value})
		if c, err := f.IdentifyBrowser(both); err != nil || c.Name() != "a" {
			t.Errorf("caller %v, error %v", c, err)
		}
		if _, _, err := f.SignIn(stranger); !errors.Is(err, ErrAnonymous) {
			t.Errorf("a token that is none: %v", err)
		}
		for i := range value {
			for _, with := range []string{"", "x", "."} {
				if changed := value[:i] + with + value[i+1:]; changed != value {
					unknown(t, f, changed)
				}
			}
		}
		for _, none := range []string{"", ".", "..", "...", "a.b-1", strings.Repeat(".", 4000), "a" + value} {
			unknown(t, f, none)
		}

		// Another server with the file takes it.
		second := open(t, path, nil)
		if c, err := second.IdentifyBrowser(ofBrowser(t, value)); err != nil || c.Name() != "a.b-1" {
			t.Errorf("caller %v, error %v", c, err)
		}
		// It ends after eight hours, and says so.
		if s, ok := c.(Session); !ok || time.Until(s.Until()) != sessionTime {
			t.Errorf("the session of %v does not end in %v", c, sessionTime)
		}
		time.Sleep(sessionTime - 2*time.Second)
		if _, err := f.IdentifyBrowser(ofBrowser(t, value)); err != nil {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		unknown(t, f, value)

		// It ends with the token by which the caller signed in, and with the key.
		value = signIn(t, f, token, "a.b-1")
		newToken, newEntry := newCaller(t, "a.b-1", "r")
		write(t, path, text(key, newEntry, otherEntry))
		time.Sleep(2 * follow.Period)
		unknown(t, f, value)
		value = signIn(t, f, newToken, "a.b-1")
		write(t, path, text(strings.Replace(key, "A", "B", 1), newEntry))
		time.Sleep(2 * follow.Period)
		unknown(t, f, value)

		// Without a key in the file, each server has its own.
		write(t, path, callers(newEntry))
		time.Sleep(2 * follow.Period)
		value = signIn(t, f, newToken, "a.b-1")
		if _, err := f.IdentifyBrowser(ofBrowser(t, value)); err != nil {
			t.Error(err)
		}
		unknown(t, second, value)
		if c := SignOut(); c.MaxAge >= 0 || c.Name != sessionCookie || c.Path != "/" || !c.Secure {
			t.Errorf("the cookie to sign out is %v", c)
		}
	})
}

func TestSessionKeyIsLong(t *testing.T) {
	for _, key := range []string{"secret", base64.StdEncoding.EncodeToString(make([]byte, 31)), "====", strings.Repeat("a", 43)} {
		if _, err := parsePolicy([]byte(fmt.Sprintf(`{"callers":[],"sessionKey":%q}`, key))); err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// A browser with a client certificate needs no cookie, and one that has ended does not keep
// it out.
func TestCertificateBesideCookie(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	write(t, path, callers(`{"name":"a","certificateNames":["a.example.com"],"rules":[]}`))
	f := open(t, path, nil)
	leaf := &x509.Certificate{NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"a.example.com"}}
	r := ofBrowser(t, "b.1.00.ended")
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	if c, err := f.IdentifyBrowser(r); err != nil || c.Name() != "a" {
		t.Errorf("caller %v, error %v", c, err)
	}
}
