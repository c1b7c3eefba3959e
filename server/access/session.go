package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A browser shows a cookie instead of its user's token, so that the token is nowhere in it.
// The cookie has when it ends, a part of the hash of the token by which the caller signed in and
// the name of the caller, after a MAC whose key is in the auth file: every server with
// that file takes it, and nothing is kept of it. The caller is looked up again at each
// request, and is unknown once the file no longer has that token.

const (
	sessionCookie = "__Host-holdfast"
	// sessionTime is how long a cookie counts.
	sessionTime = 8 * time.Hour
	// sessionKeyBytes is how many bytes the key has at least.
	sessionKeyBytes = 32
	// tokenTag is how many bytes of the hash of the token are in the cookie.
	tokenTag = 8
)

// Session is a Caller that may be known for a time only. What is answered for longer than that
// has to end then.
type Session interface {
	Caller
	// Until is when the caller has to sign in again. It is zero if it need not.
	Until() time.Time
}

// SignIn returns a cookie by which IdentifyBrowser knows the caller that has the token, for
// eight hours, and the name of the caller. Browsers send it over https, and to loopback. The
// error wraps ErrAnonymous if nobody has the token.
func (f *File) SignIn(token string) (c *http.Cookie, name string, err error) {
	if err := checkToken(token); err != nil {
		return nil, "", err
	}
	p := f.policy.Load()
	m, sum, err := p.shown(token)
	if err != nil {
		return nil, "", err
	}
	said := fmt.Sprintf("%d.%s.%s", time.Now().Add(sessionTime).Unix(), tagOf(sum), m.entry.Name)
	c = cookie(f.mac(p, said) + "." + said)
	c.MaxAge = int(sessionTime / time.Second)
	return c, m.entry.Name, nil
}

// SignOut returns a cookie that takes the one of SignIn away.
func SignOut() *http.Cookie {
	c := cookie("")
	c.MaxAge = -1
	return c
}

func cookie(value string) *http.Cookie {
	return &http.Cookie{Name: sessionCookie, Value: value, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
}

// tagOf is the part of the hash of a token that is in the cookie.
func tagOf(sum [sha256.Size]byte) string { return hex.EncodeToString(sum[:tokenTag]) }

// mac returns the MAC of what a cookie says.
func (f *File) mac(p *policy, said string) string {
	key := p.sessionKey
	if key == nil {
		key = f.ownKey[:]
	}
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte("holdfast session\x00" + said)) // never fails
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

// IdentifyBrowser is Identify, and also knows the cookie of SignIn. It is for pages that
// only a browser asks for: what stands before it must refuse the requests that pages of other
// origins make a browser send.
func (f *File) IdentifyBrowser(r *http.Request) (Caller, error) {
	known, failed := f.Identify(r)
	c, err := r.Cookie(sessionCookie)
	if failed == nil || err != nil || r.Header.Get("Authorization") != "" {
		return known, failed // a certificate counts also beside a cookie that has ended
	}
	p := f.policy.Load()
	mac, said, _ := strings.Cut(c.Value, ".")
	if !hmac.Equal([]byte(mac), []byte(f.mac(p, said))) {
		return nil, fmt.Errorf("%w: the cookie is none of this server", ErrAnonymous)
	}
	parts := strings.SplitN(said, ".", 3) // as SignIn has written it
	until, _ := strconv.ParseInt(parts[0], 10, 64)
	if time.Now().Unix() >= until {
		return nil, fmt.Errorf("%w: the cookie has ended", ErrAnonymous)
	}
	for _, t := range p.tokens {
		if t.entry.Name == parts[2] && tagOf(t.sum) == parts[1] {
			return &caller{file: f, name: parts[2], by: credential{token: t.sum}, until: time.Unix(until, 0)}, nil
		}
	}
	return nil, fmt.Errorf("%w: the token by which the caller signed in is gone", ErrAnonymous)
}
