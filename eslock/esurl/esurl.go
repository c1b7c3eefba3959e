// Package esurl opens the stores of package eslock by URL, over the HTTP
// transport of Elastic's clients. Programs that have a client of Elasticsearch or
// OpenSearch give it to eslock.New and need no URL.
//
//	elasticsearch://HOST[:PORT]/[PREFIX]?index=NAME
//	elasticsearch+https://USER:PASSWORD@HOST1,HOST2,HOST3/?index=NAME
//	opensearch+https://HOST/?index=NAME&api_key=KEY&ca=FILE
//
// The schemes elasticsearch and opensearch mean the same, HTTP; those that end in
// +https mean HTTPS. The port is 9200 if it is not given. Several hosts are nodes
// of one cluster: each request goes to the next of them that is not known to
// fail. PREFIX is a path that a proxy wants before all others. The parameters:
//
//	index                   has the locks; default distributed-locks
//	api_key                 instead of USER and PASSWORD, as Elasticsearch shows it: in Base64
//	ca                      a file of the certificates, in PEM, that the server's must come from
//	replicas                of an index that is made; default one if there is a second node
//	wait_for_active_shards  a number or all; see eslock.Options
//	old_clients             true if programs with es-distributed-lock use the index, too
//
// A request that fails on the way, or that a proxy answers with 502 or 504, is sent
// again up to three times, to the next host if there are several, as long as its
// context lives. Each may come twice without harm: a release by force looks what
// there is before it names what is to go. 503 is what a cluster answers
// after it has waited for a shard, and is left to whoever asks.
//
// Proxies are taken from the environment, as net/http does.
package esurl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/eslock"
)

const (
	dialTimeout = 5 * time.Second
	// idleConnections are kept for each host. Go's default of 2 would make those
	// who work side by side connect anew all the time.
	idleConnections = 64
	retries         = 3
)

func init() {
	for scheme := range schemes {
		driver.Register(scheme, open)
	}
}

// store is one whose connections are its own.
type store struct {
	*eslock.Store
	client    *elastictransport.Client
	transport *http.Transport
}

// Close ends the connections, and the client's watch over hosts that fail.
func (s *store) Close() error {
	err := s.client.Close(context.Background()) // waits for nobody who waits in turn
	s.transport.CloseIdleConnections()
	return errors.Join(s.Store.Close(), err)
}

func open(ctx context.Context, u *url.URL) (driver.Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := parse(u)
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext
	transport.MaxIdleConnsPerHost = idleConnections
	if t.ca != "" {
		roots, err := certificates(t.ca)
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	}
	options := []elastictransport.Option{
		elastictransport.WithURLs(t.nodes...),
		elastictransport.WithTransport(transport),
		elastictransport.WithUserAgent("holdfast"),
		elastictransport.WithRetry(retries, http.StatusBadGateway, http.StatusGatewayTimeout),
		elastictransport.WithRetryOnError(func(req *http.Request, _ error) bool { return req.Context().Err() == nil }),
		elastictransport.WithRetryBackoff(backOff),
	}
	if t.apiKey != "" {
		options = append(options, elastictransport.WithAPIKey(t.apiKey))
	}
	client, err := elastictransport.NewClient(options...)
	if err != nil {
		return nil, fail("%v", err)
	}
	return &store{eslock.New(client, &t.options), client, transport}, nil
}

// backOff is how long to wait after the given number of tries.
func backOff(tries int) time.Duration {
	return rand.N(100 * time.Millisecond << tries)
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

// fail is the error of a URL with which nothing can be opened.
func fail(format string, args ...any) error {
	return fmt.Errorf("%w: elasticsearch URL: %s", driver.ErrInvalid, fmt.Sprintf(format, args...))
}
