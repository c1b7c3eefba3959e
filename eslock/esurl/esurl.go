// Package esurl opens the stores of package eslock by URL. Programs with a client of
// Elasticsearch or OpenSearch give it to eslock.New and need no URL.
//
//	elasticsearch://HOST[:PORT]/[PREFIX]?index=NAME
//	elasticsearch+https://USER:PASSWORD@HOST1,HOST2,HOST3/?index=NAME
//	opensearch+https://HOST/?index=NAME&api_key=KEY&ca=FILE
//
// The schemes elasticsearch and opensearch both mean HTTP, and with +https HTTPS. The
// default port is 9200. Several hosts are nodes of one cluster, which take turns; a node
// that fails gets no requests for a while. PREFIX is a path that a proxy requires before
// all others. The parameters are:
//
//	index                   has the locks; default distributed-locks
//	api_key                 instead of USER and PASSWORD, as Elasticsearch shows it: in Base64
//	ca                      a PEM file of certificate authorities that may issue the server's certificate
//	replicas                of an index that is created; default one if there is a second node
//	wait_for_active_shards  a number or all; see eslock.Options
//	old_clients             true if programs with es-distributed-lock use the index, too
//
// A request that fails on the way, or that a proxy answers with 502 or 504, is sent again
// up to three times, to the next host if there are several, as long as its context lives.
// While there are other hosts, a request also fails if the answer does not begin in half
// of the time that the context has left, if that half is at least a second. Any request
// may arrive twice without harm: a forced release looks first, and then names the hold to
// release. A cluster answers 503 after it has waited for a shard, so such a request is
// not sent again.
//
// Proxies are configured by the environment, as in net/http.
package esurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

const (
	dialTimeout = 5 * time.Second
	// idleConnections is the number of idle connections kept for each host. With Go's
	// default of 2, concurrent callers would constantly reconnect.
	idleConnections = 64
)

func init() {
	for scheme := range schemes {
		driver.Register(scheme, open)
	}
}

// store is an eslock.Store that closes its own connections.
type store struct {
	*eslock.Store
	nodes *nodes
}

func (s *store) Close() error {
	s.nodes.transport.CloseIdleConnections()
	return s.Store.Close()
}

func open(ctx context.Context, u *url.URL) (driver.Store, error) {
	t, err := parse(u)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	transport.MaxIdleConnsPerHost = idleConnections
	// In HTTP/2 all requests share a connection, which stays open although requests get
	// no answer: on a path that went silent, all would be lost for a quarter of an hour.
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	if transport.TLSClientConfig == nil {
		transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	// The default transport offers HTTP/2 once it was used, and so do its clones: a
	// server that accepts the offer would get HTTP/1.1.
	transport.TLSClientConfig.NextProtos = []string{"http/1.1"}
	if t.ca != "" {
		roots, err := certificates(t.ca)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig.RootCAs = roots
	}
	n := &nodes{urls: t.nodes, apiKey: t.apiKey, transport: transport, coolUntil: make([]time.Time, len(t.nodes))}
	return &store{eslock.New(n, &t.options), n}, nil
}

func certificates(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fail("parameter \"ca\": %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fail("parameter \"ca\": %s has no certificate in PEM", file)
	}
	return pool, nil
}

// fail returns the error of an invalid URL.
func fail(format string, args ...any) error {
	return fmt.Errorf("%w: elasticsearch URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}
