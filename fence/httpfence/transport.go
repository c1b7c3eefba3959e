package httpfence

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/holdfast-go/holdfast"
)

// TransportOptions say which requests get a token. Origins is required.
type TransportOptions struct {
	// Origins are the origins of the service, such as "https://ledger.example.com" or
	// "http://127.0.0.1:8080". Requests to other origins, also by a redirect, get no
	// token. The host is compared as text, except for case: requests must use it as
	// written here. Write a name with other characters than ASCII as "xn--...", and no
	// dot at its end.
	Origins []string
	// Hold returns the hold under which a request is sent, or nil for none. Default:
	// holdfast.HoldOf of the request's context, which comes from Do or Hold.Bind. For a
	// caller with several locks, that is the innermost one.
	Hold func(*http.Request) *holdfast.Hold
	// Base sends the requests. Default: http.DefaultTransport.
	Base http.RoundTripper
}

// Transport is an http.RoundTripper that sends the token of the caller's hold.
type Transport struct {
	base    http.RoundTripper
	hold    func(*http.Request) *holdfast.Hold
	origins map[string]bool
}

// NewTransport returns a Transport. The error is holdfast.ErrInvalid if there is no
// origin, or if one is not exactly a scheme and a host, or its host is not in ASCII or
// ends with a dot.
func NewTransport(opts *TransportOptions) (*Transport, error) {
	if opts == nil || len(opts.Origins) == 0 {
		return nil, invalid("TransportOptions.Origins must be set")
	}
	t := &Transport{base: opts.Base, hold: opts.Hold, origins: make(map[string]bool)}
	if t.base == nil {
		t.base = http.DefaultTransport
	}
	if t.hold == nil {
		t.hold = func(r *http.Request) *holdfast.Hold { return holdfast.HoldOf(r.Context()) }
	}
	for _, text := range opts.Origins {
		u, err := url.Parse(text)
		switch {
		case err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https",
			strings.TrimSuffix(text[len(u.Scheme):], "/") != "://"+u.Host: // the scheme may be in upper case
			return nil, invalid("an origin must be http:// or https:// and a host, nothing else")
		case strings.ContainsFunc(u.Host, func(r rune) bool { return r > unicode.MaxASCII }):
			return nil, invalid("the host of an origin must be in ASCII, as xn--..., and so must that of the requests")
		case strings.HasSuffix(u.Hostname(), "."):
			return nil, invalid("the host of an origin must not end with a dot, and nor may that of the requests")
		}
		t.origins[originOf(u)] = true
	}
	return t, nil
}

// originOf returns the scheme, host and port to which a request for u is sent.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// RoundTrip sends the request with the token of its hold, and without a token if it has
// no hold or another origin. It replaces a header that the caller has set. If the hold
// has ended, it sends nothing and returns the reason. It also sends nothing and returns
// an error if the hold is shared or has no token.
//
// If the fence refuses the token as stale, the error is holdfast.ErrStale. Another client
// may then have the lock: end the work. Other refusals are returned as responses, see
// RefusedHeader.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	out, hold, err := t.prepare(r)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close() // nothing was written; every RoundTripper closes the body
		}
		return nil, err
	}
	resp, err := t.base.RoundTrip(out)
	if err != nil || hold == nil || resp.StatusCode != http.StatusPreconditionFailed || resp.Header.Get(RefusedHeader) != string(staleKind) {
		return resp, err
	}
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // to reuse the connection
	_ = resp.Body.Close()
	return nil, fmt.Errorf("httpfence: %w: the service refused token %d of %q", holdfast.ErrStale, hold.Token(), hold.Resource())
}

// prepare returns the request to send, and the hold whose token it has, or nil.
func (t *Transport) prepare(r *http.Request) (*http.Request, *holdfast.Hold, error) {
	if r.URL == nil {
		return r, nil, nil // the base reports the error
	}
	var hold *holdfast.Hold
	if t.origins[originOf(r.URL)] {
		hold = t.hold(r)
	}
	out := r.Clone(r.Context())
	for name := range out.Header {
		if strings.EqualFold(name, Header) {
			delete(out.Header, name)
		}
	}
	if hold == nil {
		return out, nil, nil
	}
	switch {
	case hold.Mode() != holdfast.Exclusive:
		return nil, nil, fmt.Errorf("httpfence: %w: the hold of %q is shared, and tokens protect exclusive ones", holdfast.ErrInvalid, hold.Resource())
	case hold.Token() == 0:
		return nil, nil, fmt.Errorf("httpfence: fencing tokens of %q: %w", hold.Resource(), holdfast.ErrUnsupported)
	case hold.Left() == 0:
		why := cmp.Or(context.Cause(hold.Context()), holdfast.ErrLost) // the timer may be late
		return nil, nil, fmt.Errorf("httpfence: not sent: %w", why)
	}
	if out.Header == nil {
		out.Header = make(http.Header)
	}
	out.Header.Set(Header, Token{hold.Resource(), hold.Token()}.String())
	return out, hold, nil
}

// CloseIdleConnections closes the idle connections of the base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
