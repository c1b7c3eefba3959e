package access

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Package front tries the same with certificates and connections that are real.
func TestIdentifyByCertificate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	token, entry := newCaller(t, "by-token", "*")
	write(t, path, callers(entry,
		`{"name":"a","certificateNames":["spiffe://example/a","a.example.com","A2.example.com"],"rules":[{"resources":"*","may":["lock"]}]}`,
		`{"name":"b","certificateNames":["spiffe://example/b"],"rules":[]}`))
	f := open(t, path, nil)
	for name, c := range map[string]struct {
		names       []string // of the certificate, nil for none
		unverified  bool
		expired     bool
		token       string
		want, wrong string
	}{
		"a URI":                    {names: []string{"spiffe://example/a"}, want: "a"},
		"a host":                   {names: []string{"a.example.com"}, want: "a"},
		"unknown names beside it":  {names: []string{"x", "spiffe://example/b", "spiffe://example/x"}, want: "b"},
		"two names of one caller":  {names: []string{"a.example.com", "spiffe://example/a"}, want: "a"},
		"names of two callers":     {names: []string{"a.example.com", "spiffe://example/b"}, wrong: "different callers"},
		"names of two and a token": {names: []string{"a.example.com", "spiffe://example/b"}, token: token, wrong: "different callers"},
		"another's name":           {names: []string{"c.example.com"}, wrong: "neither"},
		"other case":               {names: []string{"A.example.com"}, wrong: "neither"},
		"a capital that is meant":  {names: []string{"A2.example.com"}, want: "a"},
		"a wildcard":               {names: []string{"*.example.com", "*"}, wrong: "neither"},
		"a URI with more":          {names: []string{"spiffe://example/a/b"}, wrong: "neither"},
		"a URI with a dot":         {names: []string{"spiffe://example/./a"}, wrong: "neither"},
		"no names":                 {names: []string{}, wrong: "neither"},
		"not verified":             {names: []string{"a.example.com"}, unverified: true, wrong: "neither"},
		"expired since":            {names: []string{"a.example.com"}, expired: true, wrong: "expired"},
		"a token":                  {token: token, want: "by-token"},
		"a token, unknown names":   {names: []string{"x"}, token: token, want: "by-token"},
		"another's token":          {names: []string{"a.example.com"}, token: token, wrong: "different callers"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t)
			if c.token != "" {
				r = request(t, "Bearer "+c.token)
			}
			if c.names != nil {
				leaf := &x509.Certificate{NotAfter: time.Now().Add(time.Hour)}
				if c.expired {
					leaf.NotAfter = time.Now().Add(-time.Second)
				}
				for _, n := range c.names {
					if u, err := url.Parse(n); err == nil && u.Scheme != "" {
						leaf.URIs = append(leaf.URIs, u)
					} else {
						leaf.DNSNames = append(leaf.DNSNames, n)
					}
				}
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
				if !c.unverified {
					r.TLS.VerifiedChains = [][]*x509.Certificate{{leaf}}
				}
			}
			got, err := f.Identify(r)
			if c.want != "" {
				if err != nil || got.Name() != c.want {
					t.Errorf("caller %v, error %v, want %s", got, err, c.want)
				}
				return
			}
			if got != nil || !errors.Is(err, ErrAnonymous) || !strings.Contains(err.Error(), c.wrong) {
				t.Errorf("caller %v, error %v, want ErrAnonymous with %q", got, err, c.wrong)
			}
		})
	}
}

// A caller loses its rights with the name in its certificate.
func TestCertificateNameRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auth.json")
	write(t, path, callers(`{"name":"a","certificateNames":["one","two"],"rules":[{"resources":"*","may":["lock"]}]}`))
	f := open(t, path, nil)
	one := &caller{file: f, name: "a", by: credential{certificate: "one"}}
	two := &caller{file: f, name: "a", by: credential{certificate: "two"}}
	if !one.MayAll(Lock) || !two.MayAll(Lock) {
		t.Fatal("they may not lock")
	}
	if err := f.apply(callers(`{"name":"a","certificateNames":["two"],"rules":[{"resources":"*","may":["lock"]}]}`)); err != nil {
		t.Fatal(err)
	}
	if one.May(Lock, "r") || one.MayAll(Lock) || !two.MayAll(Lock) {
		t.Error("the rights do not follow the names")
	}
}
