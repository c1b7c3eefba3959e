package httplock

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

const (
	dialTimeout = 5 * time.Second
	keepAlive   = 15 * time.Second
	// idleConnections is the number of idle connections kept. With Go's default of 2,
	// concurrent callers would constantly reconnect.
	idleConnections = 64
	// maxHeader is the largest number of bytes in the headers of an answer.
	maxHeader = 64 << 10
)

// transport returns the transport of a lane, a changed copy of the program's transport,
// if given.
func (t *target) transport(given *http.Transport) (*http.Transport, error) {
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive}
	ours, _ := http.DefaultTransport.(*http.Transport)
	transport := cmp.Or(given, ours, &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: 2 * dialTimeout, IdleConnTimeout: 90 * time.Second,
	}).Clone()
	if given == nil {
		transport.DialContext = dialer.DialContext
	}
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	transport.DisableCompression = true
	transport.MaxConnsPerHost = 0
	transport.MaxIdleConnsPerHost = max(transport.MaxIdleConnsPerHost, idleConnections)
	transport.MaxResponseHeaderBytes = cmp.Or(transport.MaxResponseHeaderBytes, maxHeader)
	switch {
	case t.socket != "":
		transport.Proxy = nil
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", t.socket)
		}
	case t.base.Scheme == "http":
		transport.Proxy = nil // a proxy would read the token
		dialer.ControlContext = onlyLoopback
	default:
		var err error
		transport.TLSClientConfig, err = t.tls(transport.TLSClientConfig)
		if err != nil {
			return nil, err
		}
	}
	return transport, nil
}

// onlyLoopback refuses connections to other machines: localhost is a name, which somebody
// may have given to another machine.
func onlyLoopback(_ context.Context, _, address string, _ syscall.RawConn) error {
	if addr, err := netip.ParseAddrPort(address); err != nil || !addr.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("%w: localhost is %s, which is not this machine: write 127.0.0.1", driver.ErrUnusable, address)
	}
	return nil
}

// tls returns a configuration with the URL's certificates.
func (t *target) tls(base *tls.Config) (*tls.Config, error) {
	config := &tls.Config{}
	if base != nil {
		config = base.Clone()
	}
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	config.NextProtos = []string{"http/1.1"} // otherwise the copy of a transport with HTTP/2 would still offer it
	if t.ca != "" {
		text, err := os.ReadFile(t.ca)
		if err != nil {
			return nil, fail("parameter \"ca\": %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fail("parameter \"ca\": %s has no certificate in PEM", t.ca)
		}
	}
	if t.cert != "" {
		if _, err := t.certificate(nil); err != nil {
			return nil, fail("parameters \"cert\" and \"key\": %v", err)
		}
		config.GetClientCertificate = t.certificate
	}
	return config, nil
}

// certificate reads the caller's certificate for each connection: some are valid only for
// hours.
func (t *target) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c, err := tls.LoadX509KeyPair(t.cert, t.key)
	return &c, err
}
