package front

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

// tlsPeriod is how often the files are read, if somebody connects.
const tlsPeriod = time.Second

// TLSFiles are the files of a listener, in PEM.
type TLSFiles struct {
	Certificate, Key string
	// ClientCA, if any, has the authorities of the certificates of clients. They may have
	// none: then a token says who they are.
	ClientCA string
	// Log gets why files that were replaced are not used.
	Log *slog.Logger
}

// TLS returns the configuration for TLS 1.2 and later, HTTP/2 included. The files are read
// again when they were changed; connections that are open stay as they are. Files that
// cannot be used, or that do not fit each other, leave those before in use.
func TLS(files TLSFiles) (*tls.Config, error) {
	files.Log = cmp.Or(files.Log, slog.New(slog.DiscardHandler))
	c := &certificates{files: files}
	text, err := c.read()
	if err != nil {
		return nil, err
	}
	config, err := c.config(text)
	if err != nil {
		return nil, err
	}
	c.text, c.inUse, c.looked = text, config, time.Now()
	outer := config.Clone()
	outer.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current(time.Now()), nil }
	return outer, nil
}

type certificates struct {
	files TLSFiles

	mu     sync.Mutex
	text   [3][]byte
	inUse  *tls.Config
	looked time.Time
	err    error // why the files as they are now are not used
}

// current returns the configuration by the files, which are read if that is some time ago.
func (c *certificates) current(now time.Time) *tls.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) < tlsPeriod {
		return c.inUse
	}
	c.looked = now
	text, err := c.read()
	if err == nil && !slices.EqualFunc(text[:], c.text[:], bytes.Equal) {
		var config *tls.Config
		if config, err = c.config(text); err == nil {
			c.text, c.inUse = text, config
			c.files.Log.Info("the TLS certificate has been read again", "file", c.files.Certificate)
		}
	}
	if err != nil && (c.err == nil || c.err.Error() != err.Error()) {
		c.files.Log.Error("the TLS certificate from before stays in use", "error", err)
	}
	c.err = err
	return c.inUse
}

// read returns the texts of the certificate, its key and the authorities.
func (c *certificates) read() (text [3][]byte, err error) {
	for i, path := range []string{c.files.Certificate, c.files.Key, c.files.ClientCA} {
		if i == 2 && path == "" {
			break
		}
		if text[i], err = os.ReadFile(path); err != nil {
			return text, fmt.Errorf("TLS: %w", err)
		}
	}
	return text, nil
}

func (c *certificates) config(text [3][]byte) (*tls.Config, error) {
	pair, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return nil, fmt.Errorf("TLS: certificate %s with key %s: %w", c.files.Certificate, c.files.Key, err)
	}
	config := &tls.Config{
		Certificates: []tls.Certificate{pair},
		MinVersion:   tls.VersionTLS12,
		NextProtos:   []string{"h2", "http/1.1"},
	}
	if c.files.ClientCA != "" {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text[2]) {
			return nil, fmt.Errorf("TLS: client CA %s has no certificate in PEM", c.files.ClientCA)
		}
		config.ClientAuth = tls.VerifyClientCertIfGiven
		// A session that is resumed has the certificate that was checked then, by the
		// authorities of then.
		config.SessionTicketsDisabled = true
	}
	return config, nil
}
