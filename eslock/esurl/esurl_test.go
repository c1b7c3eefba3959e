package esurl

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// ask sends a request through the store at the URL, and returns the status of the answer.
func ask(ctx context.Context, t *testing.T, text string) (status int, err error) {
	t.Helper()
	return perform(ctx, t, opened(t, text))
}

// opened returns the connections of the store at the URL.
func opened(t *testing.T, text string) *nodes {
	t.Helper()
	s, err := driver.Open(t.Context(), text)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.(*store).nodes
}

func perform(ctx context.Context, t *testing.T, n *nodes) (status int, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "/some/path?x=y", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := n.Perform(req)
	if err != nil {
		return 0, err
	}
	return res.StatusCode, res.Body.Close()
}

// serve answers with the statuses, one after the other, and then repeats the last one. It
// passes the requests on to the channel.
func serve(t *testing.T, statuses ...int) (host string, requests chan *http.Request) {
	t.Helper()
	requests = make(chan *http.Request, 100)
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if body, err := io.ReadAll(r.Body); err != nil || string(body) != "body" {
			t.Errorf("body %q, %v", body, err)
		}
		requests <- r
		w.WriteHeader(statuses[min(int(n.Add(1)), len(statuses))-1])
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), requests
}

func TestRequests(t *testing.T) {
	host, requests := serve(t, http.StatusOK)
	for text, authorization := range map[string]string{
		"elasticsearch://HOST/pre":            "",
		"elasticsearch://u:p%40ss@HOST/pre/":  "Basic dTpwQHNz",
		"opensearch://u:@HOST/pre":            "Basic dTo=",
		"opensearch://HOST/pre?api_key=aTpr":  "apikey aTpr",
		"opensearch://HOST/pre/?api_key=aTpr": "apikey aTpr",
	} {
		status, err := ask(t.Context(), t, strings.Replace(text, "HOST", host, 1))
		if err != nil || status != http.StatusOK {
			t.Fatalf("%s: %d %v", text, status, err)
		}
		r := <-requests
		got := r.Header.Get("Authorization")
		if scheme, rest, ok := strings.Cut(got, " "); ok && strings.EqualFold(scheme, "apikey") {
			got = "apikey " + rest
		}
		if got != authorization || r.URL.String() != "/pre/some/path?x=y" || r.UserAgent() != "holdfast" {
			t.Errorf("%s: %s of %q with %q", text, r.URL, r.UserAgent(), got)
		}
	}
}

func TestHTTPS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // a client that does not trust it closes the connection
	host, ca := serveTLS(t, server)
	status, err := ask(t.Context(), t, "opensearch+https://"+host+"/?ca="+ca)
	if err != nil || status != http.StatusNotFound {
		t.Errorf("%d %v", status, err)
	}
	if status, err := ask(t.Context(), t, "elasticsearch+https://"+host); err == nil {
		t.Errorf("an untrusted certificate was accepted: %d", status)
	}
}

// serveTLS starts the server, and returns the file of its certificate.
func serveTLS(t *testing.T, server *httptest.Server) (host, ca string) {
	t.Helper()
	server.StartTLS()
	t.Cleanup(server.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(ca, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(server.URL, "https://"), ca
}

// A connection on which a request got no answer is not used again, even if the server, or
// a proxy in front of it, offers HTTP/2: the network may have dropped it silently.
func TestSilentConnection(t *testing.T) {
	arrived, over := make(chan struct{}, 1), make(chan struct{})
	var silent atomic.Value // the connection
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if silent.CompareAndSwap(nil, r.RemoteAddr); silent.Load() == r.RemoteAddr {
			arrived <- struct{}{}
			// r.Context would end too soon: a client announces that it leaves before it
			// closes the connection, and would read an answer in between.
			<-over
		}
	}))
	server.EnableHTTP2 = true
	host, ca := serveTLS(t, server)
	t.Cleanup(func() { close(over) })
	n := opened(t, "opensearch+https://"+host+"/?ca="+ca)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := perform(ctx, t, n); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if status, err := perform(ctx, t, n); err != nil || status != http.StatusOK {
		t.Errorf("the next request: %d %v", status, err)
	}
}

// Servers that also support HTTP/2 are used with HTTP/1.1, even with the system's
// certificates.
func TestNoHTTP2IsOffered(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	host, _ := serveTLS(t, server)
	// Once used, the default transport has settings that its clones inherit.
	first, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := http.DefaultTransport.RoundTrip(first); err == nil {
		res.Body.Close()
		t.Fatal("the certificate of the test server is trusted")
	}
	n := opened(t, "opensearch+https://"+host+"/")
	n.transport.TLSClientConfig.RootCAs = x509.NewCertPool()
	n.transport.TLSClientConfig.RootCAs.AddCert(server.Certificate())
	if status, err := perform(t.Context(), t, n); err != nil || status != http.StatusOK {
		t.Errorf("status %d, error %v", status, err)
	}
}

func TestRetries(t *testing.T) {
	for name, c := range map[string]struct {
		statuses    []int
		asked, want int
	}{
		"none":         {[]int{200}, 1, 200},
		"once":         {[]int{502, 200}, 2, 200},
		"to the end":   {[]int{504}, 1 + retries, 504},
		"not for 503":  {[]int{503, 200}, 1, 503},
		"not for 429":  {[]int{429, 200}, 1, 429},
		"not for 4xx":  {[]int{409, 200}, 1, 409},
		"not redirect": {[]int{307, 200}, 1, 307},
	} {
		t.Run(name, func(t *testing.T) {
			host, requests := serve(t, c.statuses...)
			status, err := ask(t.Context(), t, "elasticsearch://"+host)
			if err != nil || status != c.want || len(requests) != c.asked {
				t.Errorf("%d %v after %d requests", status, err, len(requests))
			}
		})
	}
}

func TestNextHost(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	dead := closed.Listener.Addr().String()
	host, requests := serve(t, http.StatusOK)
	for _, hosts := range []string{dead + "," + host, host + "," + dead} {
		for range 2 {
			if status, err := ask(t.Context(), t, "opensearch://"+hosts); err != nil || status != http.StatusOK {
				t.Errorf("%s: %d %v", hosts, status, err)
			}
		}
	}
	if len(requests) != 4 {
		t.Errorf("%d requests", len(requests))
	}
}

// A node that accepts requests and never answers leaves time for the next one.
func TestHungHost(t *testing.T) {
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(hung.Close)
	host, requests := serve(t, http.StatusOK)
	n := opened(t, "opensearch://"+host+","+strings.TrimPrefix(hung.URL, "http://")) // the second is asked first
	ctx, cancel := context.WithTimeout(t.Context(), 3*minLimit)
	defer cancel()
	for range 3 {
		if status, err := perform(ctx, t, n); err != nil || status != http.StatusOK {
			t.Errorf("%d %v", status, err)
		}
	}
	if len(requests) != 3 {
		t.Errorf("%d requests", len(requests))
	}
}

// A request whose caller has left is not sent again.
func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		n.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // the server notices the end only then
		cancel()
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	if _, err := ask(ctx, t, "elasticsearch://"+strings.TrimPrefix(server.URL, "http://")); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if n.Load() != 1 {
		t.Errorf("%d requests", n.Load())
	}
	if _, err := driver.Open(ctx, "elasticsearch://h"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A node that failed gets no requests for a while, unless all nodes failed.
func TestLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &nodes{urls: make([]*url.URL, 3), coolUntil: make([]time.Time, 3)}
		turns := func() (all []int) {
			for range 6 {
				node, _ := n.next()
				all = append(all, node)
			}
			return all
		}
		want := func(want ...int) {
			t.Helper()
			if got := turns(); !slices.Equal(got, want) {
				t.Errorf("turns %v, want %v", got, want)
			}
		}
		time.Sleep(time.Second)
		want(1, 2, 0, 1, 2, 0)
		n.coolDown(1)
		want(2, 0, 2, 0, 2, 0)
		n.coolDown(0)
		n.coolDown(2)
		want(1, 2, 0, 1, 2, 0)
		time.Sleep(cooldown + time.Second)
		want(1, 2, 0, 1, 2, 0)
	})
}
