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
// The cookie has the name of the caller, when it ends and a part of the hash of the token by
// which the caller signed in, under a MAC whose key is in the auth file: every server with
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
		return nil, "", fmt.Errorf("%w: %w", ErrAnonymous, err)
	}
	p := f.policy.Load()
	sum := hashToken(token)
	m := p.byToken(sum)
	if m == nil {
		return nil, "", fmt.Errorf("%w: the token is not known", ErrAnonymous)
	}
	said := fmt.Sprintf("%s.%d.%x", m.entry.Name, time.Now().Add(sessionTime).Unix(), sum[:tokenTag])
	c = cookie(said + "." + base64.RawURLEncoding.EncodeToString(f.mac(p, said)))
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

// mac returns the MAC of what a cookie says.
func (f *File) mac(p *policy, said string) []byte {
	key := p.sessionKey
	if key == nil {
		key = f.ownKey[:]
	}
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte("holdfast session\x00" + said)) // never fails
	return h.Sum(nil)
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
	end := strings.LastIndexByte(c.Value, '.')
	if end < 0 {
		return nil, fmt.Errorf("%w: the cookie is none of this server", ErrAnonymous)
	}
	said := c.Value[:end]
	mac, err := base64.RawURLEncoding.Strict().DecodeString(c.Value[end+1:])
	if err != nil || !hmac.Equal(mac, f.mac(p, said)) {
		return nil, fmt.Errorf("%w: the cookie is none of this server", ErrAnonymous)
	}
	// From here on it is what SignIn has written. A caller's name may have dots.
	parts := strings.Split(said, ".")
	name := strings.Join(parts[:len(parts)-2], ".")
	until, _ := strconv.ParseInt(parts[len(parts)-2], 10, 64)
	tag, _ := hex.DecodeString(parts[len(parts)-1])
	if time.Now().Unix() >= until {
		return nil, fmt.Errorf("%w: the cookie has ended", ErrAnonymous)
	}
	for _, t := range p.tokens {
		if t.entry.Name == name && string(t.sum[:tokenTag]) == string(tag) {
			return &caller{file: f, name: name, by: credential{token: t.sum}, until: time.Unix(until, 0)}, nil
		}
	}
	return nil, fmt.Errorf("%w: the token by which the caller signed in is gone", ErrAnonymous)
}
