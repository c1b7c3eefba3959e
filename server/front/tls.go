package front

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"sync"

	"github.com/holdfast-go/holdfast/server/budget"
	"github.com/holdfast-go/holdfast/server/internal/follow"
)

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

// TLS serves TLS 1.2 and later, by files that it reads again when they change. Files that cannot
// be used, or that do not fit each other, leave those before in use. All methods may be called
// concurrently.
type TLS struct {
	files    TLSFiles
	followed *follow.Files

	// handshakes is what an address may begin of them.
	handshakes *budget.Budget

	mu    sync.Mutex
	inUse *tls.Config
	// known are the open connections whose client has shown a certificate.
	known map[*tlsConn][]*x509.Certificate
}

// OpenTLS reads the files. The caller closes the TLS, after the server.
func OpenTLS(files TLSFiles) (*TLS, error) {
	files.Log = cmp.Or(files.Log, slog.New(slog.DiscardHandler))
	rate := handshakesPerProcessor * float64(runtime.GOMAXPROCS(0))
	t := &TLS{
		files: files, known: map[*tlsConn][]*x509.Certificate{},
		handshakes: budget.New(&budget.Options{Rates: map[budget.Flow]budget.Rate{budget.Requests: {PerSecond: rate, Most: rate}}}),
	}
	text, err := t.read()
	if err != nil {
		return nil, err
	}
	if t.inUse, err = t.config(text); err != nil {
		return nil, err
	}
	t.followed = follow.Start(text, t.read, t.apply, files.Log)
	return t, nil
}

// Close stops reading the files.
func (t *TLS) Close() { t.followed.Close() }

// Listener returns a listener whose connections speak TLS. One whose client has shown a
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

// tlsConn is the connection below one that speaks TLS.
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

// handshakesPerProcessor is how many handshakes an address may begin in a second, for each
// processor. That is a tenth of what it can do, and lets thousands of clients behind one address
// come back in some seconds.
const handshakesPerProcessor = 250

var errHandshakes = errors.New("tls: the address begins too many handshakes")

func (t *TLS) configFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if _, ok := t.handshakes.Of(Sender(nil, addressOf(hello.Conn.RemoteAddr().String())), false).Spend(budget.Requests, 1); !ok {
		return nil, errHandshakes
	}
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

// apply uses the files, and ends the connections whose certificates they no longer confirm.
func (t *TLS) apply(text [3]string) error {
	config, err := t.config(text)
	if err != nil {
		return err
	}
	ended := t.use(config)
	for _, c := range ended {
		_ = c.Close()
	}
	t.files.Log.Info("the TLS certificate has been read again", "file", t.files.Certificate, "connectionsEnded", len(ended))
	return nil
}

// use returns the connections that are to end.
func (t *TLS) use(config *tls.Config) (ended []*tlsConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inUse = config
	for c, shown := range t.known {
		if t.confirm(shown) != nil {
			ended = append(ended, c)
		}
	}
	return ended
}

// read returns the texts of the certificate, its key and the authorities.
func (t *TLS) read() (text [3]string, err error) {
	for i, path := range []string{t.files.Certificate, t.files.Key, t.files.ClientCA} {
		if i == 2 && path == "" {
			break
		}
		read, err := os.ReadFile(path)
		if err != nil {
			return text, fmt.Errorf("TLS: %w", err)
		}
		text[i] = string(read)
	}
	return text, nil
}

func (t *TLS) config(text [3]string) (*tls.Config, error) {
	pair, err := tls.X509KeyPair([]byte(text[0]), []byte(text[1]))
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
		if !config.ClientCAs.AppendCertsFromPEM([]byte(text[2])) {
			return nil, fmt.Errorf("TLS: client CA %s has no certificate in PEM", t.files.ClientCA)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
		// A session that is resumed has the certificate that was checked then, by the
		// authorities of then.
		config.SessionTicketsDisabled = true
	}
	return config, nil
}
