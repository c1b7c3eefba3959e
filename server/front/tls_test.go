package front

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/internal/follow"
)

// authority makes certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return &authority{cert, key}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// issue makes a certificate and its key in PEM. A name with a colon is a URI, unless it is
// an address.
func (a *authority) issue(t *testing.T, until time.Duration, names ...string) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(until),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else if strings.Contains(name, ":") {
			u, err := url.Parse(name)
			check(t, err)
			template.URIs = append(template.URIs, u)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	check(t, err)
	text, err := x509.MarshalPKCS8PrivateKey(private)
	check(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// tlsFiles writes the files of a server that has a certificate of ca, and asks clients for
// one of clientCA, if that is not nil.
func tlsFiles(t *testing.T, ca, clientCA *authority) TLSFiles {
	t.Helper()
	dir := t.TempDir()
	files := TLSFiles{Certificate: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	cert, key := ca.issue(t, time.Hour, "127.0.0.1", "localhost")
	check(t, errors.Join(os.WriteFile(files.Certificate, cert, 0o600), os.WriteFile(files.Key, key, 0o600)))
	if clientCA != nil {
		files.ClientCA = filepath.Join(dir, "ca.pem")
		check(t, os.WriteFile(files.ClientCA, clientCA.pem(), 0o600))
	}
	return files
}

// startTLS serves a Front with TLS, and returns its address.
func startTLS(t *testing.T, files TLSFiles, next http.Handler, o *Options) string {
	t.Helper()
	secure, err := OpenTLS(files)
	check(t, err)
	t.Cleanup(secure.Close)
	l := listen(t)
	serve(t, secure.Listener(l), newFront(t, next, o))
	return l.Addr().String()
}

// withTLS is a client's transport that trusts ca, and presents the certificate if there is
// one.
func withTLS(t *testing.T, ca *authority, cert, key []byte) func(*http.Transport) {
	return func(tr *http.Transport) {
		tr.ForceAttemptHTTP2 = true
		tr.TLSClientConfig = &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}
		if cert != nil {
			pair, err := tls.X509KeyPair(cert, key)
			check(t, err)
			// Presented even if the server says that it knows no such authority.
			tr.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
	}
}

func TestTLS(t *testing.T) {
	ca := newAuthority(t)
	auth, tokens := newAuth(t, "a")
	addr := startTLS(t, tlsFiles(t, ca, nil), whoami, &Options{Identify: auth.Identify})
	token := "Authorization: Bearer " + tokens["a"]
	got := send(t, client(t, withTLS(t, ca, nil, nil)), "POST", "https://"+addr+wire.AcquirePath, "{}", token, "Content-Type: application/json")
	if got.body != "caller a from 127.0.0.1" || got.proto != 1 {
		t.Errorf("HTTP/%d: %s", got.proto, got.body)
	}
	if got := send(t, client(t, withTLS(t, ca, nil, nil)), "GET", "https://"+addr+"/", ""); got.kind != wire.KindAnonymous {
		t.Errorf("%d: %s", got.status, got.body)
	}
	old := client(t, func(tr *http.Transport) {
		tr.TLSClientConfig = &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/", nil)
	check(t, err)
	if got, err := old.Do(r); err == nil {
		_ = got.Body.Close()
		t.Error("TLS 1.1 is accepted")
	}
	// Who speaks HTTP to it gets nothing that could be taken for an answer.
	if got := sendRaw(t, addr, "GET /healthz HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"); !strings.Contains(got, " 400 ") {
		t.Errorf("answer %q", got)
	}
}

func TestClientCertificates(t *testing.T) {
	ca, clientCA, strangers := newAuthority(t), newAuthority(t), newAuthority(t)
	auth, tokens := newAuth(t, "a=spiffe://example/a", "b=b.example.com", "c")
	addr := startTLS(t, tlsFiles(t, ca, clientCA), whoami, &Options{Identify: auth.Identify})
	for name, c := range map[string]struct {
		by    *authority
		until time.Duration
		names []string
		token string
		want  string // the caller, or "401", or "no connection"
	}{
		"a URI":               {clientCA, time.Hour, []string{"spiffe://example/a"}, "", "a"},
		"a host":              {clientCA, time.Hour, []string{"b.example.com", "other"}, "", "b"},
		"both":                {clientCA, time.Hour, []string{"spiffe://example/a", "b.example.com"}, "", "401"},
		"none that is known":  {clientCA, time.Hour, []string{"d.example.com"}, "", "401"},
		"and its token":       {clientCA, time.Hour, []string{"spiffe://example/a"}, "a", "a"},
		"and another's token": {clientCA, time.Hour, []string{"spiffe://example/a"}, "c", "401"},
		"a token alone":       {nil, 0, nil, "c", "c"},
		"nothing":             {nil, 0, nil, "", "401"},
		"of strangers":        {strangers, time.Hour, []string{"spiffe://example/a"}, "", "no connection"},
		"of the server's CA":  {ca, time.Hour, []string{"spiffe://example/a"}, "", "no connection"},
		"strangers, a token":  {strangers, time.Hour, []string{"x"}, "c", "no connection"},
		"expired":             {clientCA, -time.Minute, []string{"spiffe://example/a"}, "", "no connection"},
	} {
		t.Run(name, func(t *testing.T) {
			var cert, key []byte
			if c.by != nil {
				cert, key = c.by.issue(t, c.until, c.names...)
			}
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+"/", nil)
			check(t, err)
			if c.token != "" {
				r.Header.Set("Authorization", "Bearer "+tokens[c.token])
			}
			got, err := client(t, withTLS(t, ca, cert, key)).Do(r)
			if err != nil {
				if c.want != "no connection" {
					t.Error(err)
				}
				return
			}
			a := readAnswer(t, got)
			if c.want == "401" && a.kind != wire.KindAnonymous || c.want != "401" && a.body != "caller "+c.want+" from 127.0.0.1" {
				t.Errorf("%d: %s, want %s", a.status, a.body, c.want)
			}
		})
	}
}

// The files of a server are replaced while it runs, one after the other.
func TestTLSFilesChange(t *testing.T) { synctest.Test(t, testTLSFilesChange) }

func testTLSFilesChange(t *testing.T) {
	ca, clientCA := newAuthority(t), newAuthority(t)
	files := tlsFiles(t, ca, clientCA)
	var log bytes.Buffer
	files.Log = slog.New(slog.NewTextHandler(&log, nil))
	c, err := OpenTLS(files)
	check(t, err)
	defer c.Close()
	config := c.inUse
	later := func() *tls.Config {
		time.Sleep(follow.Period + time.Millisecond)
		synctest.Wait()
		return c.inUse
	}
	serial := func(config *tls.Config) string { return config.Certificates[0].Leaf.SerialNumber.String() }

	if later() != config {
		t.Error("files that are the same make another configuration")
	}
	cert, key := ca.issue(t, time.Hour, "127.0.0.1")
	check(t, os.WriteFile(files.Certificate, cert, 0o600))
	if later() != config || c.followed.Err() == nil || later() != config {
		t.Errorf("a certificate without its key is in use: %v", c.followed.Err())
	}
	if n := strings.Count(log.String(), "stays in force"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, log.String())
	}
	check(t, os.WriteFile(files.Key, key, 0o600))
	second := later()
	if second == config || c.followed.Err() != nil || serial(second) == serial(config) {
		t.Errorf("the new certificate is not in use: %v", c.followed.Err())
	}
	for _, file := range []string{files.Certificate, files.Key, files.ClientCA} {
		text, err := os.ReadFile(file)
		check(t, err)
		for what, spoil := range map[string]func() error{
			"empty":        func() error { return os.WriteFile(file, nil, 0o600) },
			"half written": func() error { return os.WriteFile(file, text[:len(text)/2], 0o600) },
			"missing":      func() error { return os.Remove(file) },
		} {
			check(t, spoil())
			if later() != second || c.followed.Err() == nil {
				t.Errorf("%s is %s: error %v", filepath.Base(file), what, c.followed.Err())
			}
			check(t, os.WriteFile(file, text, 0o600))
			if later() != second || c.followed.Err() != nil {
				t.Errorf("%s is as before: error %v", filepath.Base(file), c.followed.Err())
			}
		}
	}
	other := newAuthority(t)
	check(t, os.WriteFile(files.ClientCA, other.pem(), 0o600))
	if got := later(); got == second || !got.ClientCAs.Equal(other.pool()) {
		t.Error("the new authority is not in use")
	}
}

// A server that runs presents the new certificate to whoever connects.
func TestTLSFilesChangeInUse(t *testing.T) {
	ca := newAuthority(t)
	files := tlsFiles(t, ca, nil)
	addr := startTLS(t, files, whoami, nil)
	serial := func() string {
		d := tls.Dialer{Config: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		check(t, err)
		defer c.Close()
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	first := serial()
	cert, key := ca.issue(t, time.Hour, "127.0.0.1")
	check(t, errors.Join(os.WriteFile(files.Certificate, cert, 0o600), os.WriteFile(files.Key, key, 0o600)))
	for deadline := time.Now().Add(time.Minute); serial() == first; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first certificate is still in use after a minute")
		}
	}
}

// An authority that is withdrawn is no longer in force on connections that are open, whatever
// goes on there. Those of others stay.
func TestAuthorityIsWithdrawn(t *testing.T) {
	ca, withdrawn, kept := newAuthority(t), newAuthority(t), newAuthority(t)
	files := tlsFiles(t, ca, withdrawn)
	check(t, os.WriteFile(files.ClientCA, append(withdrawn.pem(), kept.pem()...), 0o600))
	auth, _ := newAuth(t, "a=spiffe://example/a", "b=spiffe://example/b")
	begun, ended := make(chan string), make(chan string, 2)
	addr := startTLS(t, files, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, err := CallerOf(r); err == nil && r.URL.Path == "/wait" {
			begun <- c.Name()
			<-r.Context().Done()
			ended <- c.Name()
		}
		whoami.ServeHTTP(w, r)
	}), &Options{Identify: auth.Identify})
	get := func(c *http.Client, path string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr+path, nil)
		check(t, err)
		got, err := c.Do(r)
		if err != nil {
			return "", err
		}
		a := readAnswer(t, got)
		return a.body, nil
	}
	var connections atomic.Int64 // of b
	as := func(name string, by *authority) *http.Client {
		cert, key := by.issue(t, time.Hour, "spiffe://example/"+name)
		c := client(t, func(tr *http.Transport) {
			withTLS(t, ca, cert, key)(tr)
			tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if name == "b" {
					connections.Add(1)
				}
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
		})
		if got, err := get(c, "/"); got != "caller "+name+" from 127.0.0.1" {
			t.Fatal(got, err)
		}
		return c
	}
	idle, waiting, other, otherWaits := as("a", withdrawn), as("a", withdrawn), as("b", kept), as("b", kept)
	lost := make(chan error, 1)
	go func() {
		_, err := get(waiting, "/wait")
		lost <- err
	}()
	<-begun
	go func() { _, _ = get(otherWaits, "/wait") }()
	<-begun
	check(t, os.WriteFile(files.ClientCA, kept.pem(), 0o600))
	if err := <-lost; err == nil {
		t.Error("the wait was answered")
	}
	if name := <-ended; name != "a" {
		t.Errorf("the wait of %s has ended", name)
	}
	for _, c := range []*http.Client{idle, waiting} {
		// The connections end one after the other.
		for deadline := time.Now().Add(time.Minute); ; {
			got, err := get(c, "/")
			if err != nil {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("it is still in force after a minute: %s", got)
			}
		}
	}
	if got, err := get(other, "/"); got != "caller b from 127.0.0.1" || connections.Load() != 2 {
		t.Errorf("%s %v, over the connection %d", got, err, connections.Load())
	}
	if len(ended) > 0 {
		t.Error("the wait of b has ended")
	}
}

// An authority that is withdrawn during a handshake is not in force after it. What is closed is
// forgotten.
func TestAuthorityIsWithdrawnDuringHandshake(t *testing.T) {
	ca, withdrawn, kept := newAuthority(t), newAuthority(t), newAuthority(t)
	files := tlsFiles(t, ca, withdrawn)
	secure, err := OpenTLS(files)
	check(t, err)
	secure.Close() // the test reads them itself
	pipe, _ := net.Pipe()
	c := &tlsConn{pipe, secure}
	config, err := secure.configFor(&tls.ClientHelloInfo{Conn: c})
	check(t, err)
	text, _ := withdrawn.issue(t, time.Hour, "a")
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	state := tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	check(t, config.VerifyConnection(state))
	check(t, os.WriteFile(files.ClientCA, kept.pem(), 0o600))
	texts, err := secure.read()
	check(t, err)
	later, err := secure.config(texts)
	check(t, err)
	if ended := secure.use(later); len(ended) != 1 || ended[0] != c {
		t.Errorf("%d connections end", len(ended))
	}
	if config.VerifyConnection(state) == nil {
		t.Error("the handshake succeeds")
	}
	check(t, config.VerifyConnection(tls.ConnectionState{}))
	check(t, c.Close())
	if len(secure.known) != 0 {
		t.Error("a connection that is closed is remembered")
	}
}

func TestTLSRefused(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	for name, spoil := range map[string]func(f *TLSFiles) error{
		"no certificate":    func(f *TLSFiles) error { return os.Remove(f.Certificate) },
		"no key":            func(f *TLSFiles) error { return os.Remove(f.Key) },
		"no authority":      func(f *TLSFiles) error { return os.Remove(f.ClientCA) },
		"an empty one":      func(f *TLSFiles) error { return os.WriteFile(f.ClientCA, nil, 0o600) },
		"a key for another": func(f *TLSFiles) error { _, key := ca.issue(t, time.Hour, "a"); return os.WriteFile(f.Key, key, 0o600) },
		"a key as an authority": func(f *TLSFiles) error {
			_, key := ca.issue(t, time.Hour, "a")
			return os.WriteFile(f.ClientCA, key, 0o600)
		},
	} {
		files := tlsFiles(t, ca, other)
		check(t, spoil(&files))
		secure, err := OpenTLS(files)
		if err == nil {
			secure.Close()
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), "PRIVATE KEY") {
			t.Errorf("the error has the key: %v", err)
		}
	}
}

// An address that begins handshakes all the time is refused, and its open connections stay.
func TestHandshakesAreLimited(t *testing.T) {
	ca := newAuthority(t)
	secure, err := OpenTLS(tlsFiles(t, ca, nil))
	check(t, err)
	t.Cleanup(secure.Close)
	secure.handshakes = budget.New(&budget.Options{Rates: map[budget.Flow]budget.Rate{budget.Requests: {PerSecond: .001, Most: 3}}})
	l := listen(t)
	serve(t, secure.Listener(l), newFront(t, whoami, nil))
	addr := l.Addr().String()
	kept := client(t, withTLS(t, ca, nil, nil))
	begin := func() error {
		d := tls.Dialer{Config: &tls.Config{RootCAs: ca.pool(), MinVersion: tls.VersionTLS12}}
		c, err := d.DialContext(t.Context(), "tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if got := send(t, kept, "GET", "https://"+addr+"/", ""); got.status != http.StatusOK {
		t.Fatalf("%+v", got)
	}
	for n := 2; n <= 4; n++ {
		if err := begin(); (err == nil) != (n <= 3) {
			t.Errorf("handshake %d: %v", n, err)
		}
	}
	if got := send(t, kept, "GET", "https://"+addr+"/", ""); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
}
