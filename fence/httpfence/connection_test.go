package httpfence_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/fence/httpfence"
)

var lastToken atomic.Int64

// newToken returns a token that is larger than all earlier ones by more than 2.
func newToken() int { return int(lastToken.Add(10)) }

// user is a client with persistent connections of its own.
type user struct {
	t    *testing.T
	url  string
	http *http.Client
}

func newUser(t *testing.T, server *httptest.Server, url string) user {
	tr := server.Client().Transport.(*http.Transport).Clone()
	t.Cleanup(tr.CloseIdleConnections)
	return user{t, url, &http.Client{Transport: tr}}
}

// send sends a request, and reports whether it reused a connection.
func (u user) send(method, path string, token int, body io.Reader) (_ answer, reused bool, _ error) {
	ctx := httptrace.WithClientTrace(u.t.Context(), &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused },
	})
	r, err := http.NewRequestWithContext(ctx, method, u.url+path, body)
	if err != nil {
		u.t.Fatal(err)
	}
	r.Header.Set(httpfence.Header, fmt.Sprint(token))
	resp, err := u.http.Do(r)
	if err != nil {
		return answer{}, reused, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(text)}, reused, err
}

// served sends a request that must be served, and reports whether it reused a connection.
func (u user) served(method, path string, token int, body string) bool {
	u.t.Helper()
	return u.answered(http.StatusOK, "", method, path, token, body)
}

// overtaken is like served, for a request that is overtaken.
func (u user) overtaken(method, path string, token int, body string) bool {
	u.t.Helper()
	return u.answered(http.StatusPreconditionFailed, "stale", method, path, token, body)
}

func (u user) answered(status int, reason, method, path string, token int, body string) bool {
	u.t.Helper()
	a, reused, err := u.send(method, path, token, strings.NewReader(body))
	if err != nil {
		u.t.Error(err)
	} else {
		has(u.t, a, status, reason)
	}
	return reused
}

// overtaken is a service whose PUTs last until they are overtaken. All other requests
// must have a context that has not ended.
type overtaken struct {
	in   chan struct{}
	read func(io.Reader) // nil: it does not read the bodies of PUTs
}

func (o overtaken) fence(t *testing.T) http.Handler {
	return handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			if o.read != nil {
				o.read(r.Body)
			}
			o.in <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if err := r.Context().Err(); err != nil {
			t.Errorf("a request begins with an ended context: %v", err)
		}
	}, httpfence.Options{
		Resource: func(r *http.Request) string { return r.URL.Path },
		Patience: time.Hour,
	})
}

// during calls then while send sends a PUT that has reached the service.
func (o overtaken) during(t *testing.T, send, then func()) {
	t.Helper()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		send()
	}()
	select {
	case <-o.in:
		then()
		<-sent
	case <-sent:
		t.Fatal("it did not get to the service")
	}
}

// An overtaken request leaves nothing behind on its connection, which serves other
// requests if the service did not wait for more of the body.
func TestConnectionsLive(t *testing.T) {
	all := func(in io.Reader) { _, _ = io.Copy(io.Discard, in) }
	few := func(in io.Reader) { _, _ = in.Read(make([]byte, 2)) }
	for name, test := range map[string]struct {
		body string
		read func(io.Reader)
	}{
		"no body": {}, "body": {"body", all}, "body, not read": {body: "body"}, "body, read in part": {"body", few},
	} {
		t.Run(name, func(t *testing.T) {
			o := overtaken{make(chan struct{}), test.read}
			bodies(t, o.fence(t), func(t *testing.T, server *httptest.Server) {
				older, newer := newUser(t, server, server.URL), newUser(t, server, server.URL)
				for n := range 7 {
					token := newToken()
					o.during(t, func() {
						if reused := older.overtaken("PUT", "/a", token, test.body); reused != (n > 0) {
							t.Errorf("reused: %v", reused)
						}
					}, func() { newer.served("GET", "/a", token+1, "") })
					if !older.served("POST", "/a", token+2, test.body) || !older.served("GET", "/b", 1, "") {
						t.Error("the connection was closed")
					}
				}
			})
		})
	}
}

// The connections of a proxy are shared by all callers.
func TestConnectionsOfProxy(t *testing.T) {
	o := overtaken{in: make(chan struct{})}
	bodies(t, o.fence(t), func(t *testing.T, server *httptest.Server) {
		to, err := url.Parse(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		reverse := httputil.NewSingleHostReverseProxy(to)
		tr := server.Client().Transport.(*http.Transport).Clone()
		tr.MaxIdleConnsPerHost = 10
		reverse.Transport = tr
		defer tr.CloseIdleConnections()
		proxy := serve(t, reverse)
		older, newer, other := newUser(t, proxy, proxy.URL), newUser(t, proxy, proxy.URL), newUser(t, proxy, proxy.URL)
		for range 10 {
			token := newToken()
			o.during(t, func() { older.overtaken("PUT", "/a", token, "") }, func() { newer.served("GET", "/a", token+1, "") })
			var all sync.WaitGroup
			for range 4 { // on all connections of the proxy
				all.Go(func() { other.served("GET", "/b", 1, "") })
			}
			all.Wait()
		}
	})
}

// If the body of a request stops, that costs HTTP/1 its connection, and HTTP/2 its
// stream.
func TestConnectionAfterStop(t *testing.T) {
	o := overtaken{in: make(chan struct{}, 2)}
	o.read = func(in io.Reader) {
		_, _ = io.ReadFull(in, make([]byte, len("half")))
		o.in <- struct{}{}
		_, _ = io.Copy(io.Discard, in)
	}
	bodies(t, o.fence(t), func(t *testing.T, server *httptest.Server) {
		older, newer := newUser(t, server, server.URL), newUser(t, server, server.URL)
		for range 3 {
			token := newToken()
			in, out := pipe(t)
			go out.send("half")
			o.during(t, func() {
				_, _, _ = older.send("PUT", "/a", token, in)
				in.Close()
			}, func() {
				newer.served("GET", "/a", token+1, "")
				out.end()
			})
			<-o.in // a second time, after the body
			older.served("POST", "/a", token+2, "body")
			older.served("GET", "/b", 1, "")
		}
	})
}

// raw is an HTTP/1 client that writes raw bytes.
type raw struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, server *httptest.Server) raw {
	var d net.Dialer
	c, err := d.DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return raw{t, c, bufio.NewReader(c)}
}

func (r raw) write(text string) {
	if _, err := io.WriteString(r, text); err != nil {
		r.t.Error(err)
	}
}

// isClosed checks that the response is the last one.
func (r raw) isClosed() {
	r.t.Helper()
	resp, err := http.ReadResponse(r.in, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	if rest, err := io.ReadAll(r.in); err != nil || len(rest) > 0 {
		r.t.Errorf("more on the connection: %q, error %v", rest, err)
	}
}

// signals is a body that sends a signal in each Read.
type signals struct {
	io.ReadCloser
	in chan<- struct{}
}

func (s *signals) Read(p []byte) (int, error) {
	s.in <- struct{}{}
	return s.ReadCloser.Read(p)
}

// Even if a service responds before it has read the body, no connection is left on which
// the rest of the body could be mistaken for a request.
func TestFullDuplex(t *testing.T) {
	reads := make(chan struct{})
	h := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if token, _ := httpfence.TokenOf(r.Context()); token.Value > 5 {
			return
		}
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		if err := c.Flush(); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}, httpfence.Options{Patience: time.Hour})
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(r.Context()) // net/http keeps its own copy
		if r.ContentLength > 0 {
			r.Body = &signals{r.Body, reads}
		}
		h.ServeHTTP(w, r)
	}))
	old := dial(t, server)
	old.write("PUT / HTTP/1.1\r\nHost: h\r\nHoldfast-Token: 5\r\nContent-Length: 500\r\n\r\nhalf")
	<-reads // half
	<-reads
	newUser(t, server, server.URL).served("GET", "/", 6, "")
	old.write("GET /of/the/body HTTP/1.1\r\nHost: h\r\nHoldfast-Token: 6\r\n\r\n")
	old.isClosed()
}

// Before a long response, net/http reads the rest of the body.
func TestStoppedBeforeResponse(t *testing.T) {
	writes, wrote := make(chan struct{}), make(chan struct{})
	h := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if token, _ := httpfence.TokenOf(r.Context()); token.Value > 5 {
			return
		}
		writes <- struct{}{}
		_, _ = w.Write(make([]byte, 1<<16)) // this may fail
		close(wrote)
	}, httpfence.Options{Patience: 50 * time.Millisecond})
	server := serve(t, h)
	old := dial(t, server)
	old.write("PUT / HTTP/1.1\r\nHost: h\r\nHoldfast-Token: 5\r\nContent-Length: 500\r\n\r\nhalf")
	<-writes
	newUser(t, server, server.URL).served("GET", "/", 6, "")
	select {
	case <-wrote:
	case <-time.After(10 * time.Second):
		t.Error("the service still waits for the body")
	}
	if rest, _ := io.ReadAll(old.in); strings.Count(string(rest), "HTTP/1.1") > 1 {
		t.Errorf("received %q", rest)
	}
}

// If a service answers too late, it closes the connection, and the client's next request
// uses another.
func TestConnectionAfterPatience(t *testing.T) {
	goOn, in := make(chan struct{}), make(chan struct{})
	h := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			in <- struct{}{}
			<-goOn
		}
		if r.Method == http.MethodGet && r.Context().Err() != nil {
			t.Errorf("a request begins with an ended context: %v", context.Cause(r.Context()))
		}
	}, httpfence.Options{Patience: time.Millisecond})
	bodies(t, h, func(t *testing.T, server *httptest.Server) {
		older, newer := newUser(t, server, server.URL), newUser(t, server, server.URL)
		token := newToken()
		var old sync.WaitGroup
		old.Go(func() { _, _, _ = older.send("PUT", "/", token, nil) })
		<-in
		newer.served("GET", "/", token+1, "")
		goOn <- struct{}{}
		old.Wait()
		for range 3 {
			older.served("GET", "/", token+2, "")
		}
	})
}
