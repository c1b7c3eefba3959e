package front

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"sync"
	"time"
)

// tlsPeriod is how often the files are read.
const tlsPeriod = time.Second

var protocols = []string{"http/1.1"}

// TLSFiles are the files of a listener, in PEM.
type TLSFiles struct {
	Certificate, Key string
	// ClientCA, if any, has the authorities of the certificates of clients. They may have
	// none: then a token says who they are.
	ClientCA string
	// Log gets why files that were replaced are not used.
	Log *slog.Logger
}

// TLS serves TLS 1.2 and later, by files that it reads again when they change.
// Files that cannot be used, or that do not fit each other, leave those before in use. All
// methods may be called concurrently.
type TLS struct {
	files TLSFiles
	done  chan struct{}
	work  sync.WaitGroup

	mu    sync.Mutex
	text  [3][]byte
	inUse *tls.Config
	err   error // why the files as they are now are not used
	// known are the open connections whose client has shown a certificate.
	known map[*tlsConn][]*x509.Certificate
}

// OpenTLS reads the files. The caller closes the TLS, after the server.
func OpenTLS(files TLSFiles) (*TLS, error) {
	files.Log = cmp.Or(files.Log, slog.New(slog.DiscardHandler))
	t := &TLS{files: files, done: make(chan struct{}), known: map[*tlsConn][]*x509.Certificate{}}
	text, err := t.read()
	if err != nil {
		return nil, err
	}
	if t.inUse, err = t.config(text); err != nil {
		return nil, err
	}
	t.text = text
	t.work.Go(t.follow)
	return t, nil
}

// Close stops reading the files.
func (t *TLS) Close() {
	close(t.done)
	t.work.Wait()
}

// Listener returns a listener whose connections are by TLS. One whose client has shown a
// certificate ends, with all its requests, once the authorities no longer confirm that.
func (t *TLS) Listener(l net.Listener) net.Listener {
	outer := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: protocols, GetConfigForClient: t.configFor}
	return tls.NewListener(tlsListener{l, t}, outer)
}

type tlsListener struct {
	net.Listener
	tls *TLS
}

func (l tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tlsConn{c, l.tls}, nil
}

// tlsConn is what a connection is by that is by TLS.
type tlsConn struct {
	net.Conn
	tls *TLS
}

func (c *tlsConn) Close() error {
	c.tls.mu.Lock()
	delete(c.tls.known, c)
	c.tls.mu.Unlock()
	return c.Conn.Close()
}

func (t *TLS) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files.ClientCA == "" {
		return t.inUse, nil
	}
	config := t.inUse.Clone()
	config.VerifyConnection = func(s tls.ConnectionState) error { return t.admit(hello.Conn.(*tlsConn), s.PeerCertificates) }
	return config, nil
}

// admit notes the certificate that a client has shown. The authorities may have changed since
// its handshake began.
func (t *TLS) admit(c *tlsConn, shown []*x509.Certificate) error {
	if len(shown) == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[c] = shown
	return t.confirm(shown)
}

// confirm returns nil if the authorities of now confirm what a client has shown.
func (t *TLS) confirm(shown []*x509.Certificate) error {
	between := x509.NewCertPool()
	for _, cert := range shown[1:] {
		between.AddCert(cert)
	}
	_, err := shown[0].Verify(x509.VerifyOptions{
		Roots: t.inUse.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return err
}

// follow reads the files until Close.
func (t *TLS) follow() {
	ticker := time.NewTicker(tlsPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-t.done:
			return
		case <-ticker.C:
		}
		for _, c := range t.look() {
			_ = c.Close()
		}
	}
}

// look reads the files, and returns the connections that are to end.
func (t *TLS) look() (ended []*tlsConn) {
	text, err := t.read()
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && !slices.EqualFunc(text[:], t.text[:], bytes.Equal) {
		var config *tls.Config
		if config, err = t.config(text); err == nil {
			t.text, t.inUse = text, config
			for c, shown := range t.known {
				if t.confirm(shown) != nil {
					ended = append(ended, c)
				}
			}
			t.files.Log.Info("the TLS certificate has been read again", "file", t.files.Certificate, "connectionsEnded", len(ended))
		}
	}
	if err != nil && (t.err == nil || t.err.Error() != err.Error()) {
		t.files.Log.Error("the TLS certificate from before stays in use", "error", err)
	}
	t.err = err
	return ended
}

// read returns the texts of the certificate, its key and the authorities.
func (t *TLS) read() (text [3][]byte, err error) {
	for i, path := range []string{t.files.Certificate, t.files.Key, t.files.ClientCA} {
		if i == 2 && path == "" {
			break
		}
		if text[i], err = os.ReadFile(path); err != nil {
			return text, fmt.Errorf("TLS: %w", err)
		}
	}
	return text, nil
}

func (t *TLS) config(text [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return nil, fmt.Errorf("TLS: certificate %s with key %s: %w", t.files.Certificate, t.files.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   protocols,
	}
	if t.files.ClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text[2]) {
			return nil, fmt.Errorf("TLS: client CA %s has no certificate in PEM", t.files.ClientCA)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
		// A session that is resumed has the certificate that was checked then, by the
		// authorities of then.
		config.SessionTicketsDisabled = true
	}
	return config, nil
}
