package httpfence_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

// visits is a service whose requests last until the test lets them end.
type visits struct {
	mu     sync.Mutex
	events []string
	goOn   map[string]chan struct{} // by token: for requests that ignore their context
}

func (v *visits) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.events = append(v.events, fmt.Sprintf(format, args...))
}

func (v *visits) are(t *testing.T, want ...string) {
	t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	if got := strings.Join(v.events, ", "); got != strings.Join(want, ", ") {
		t.Errorf("events: %s; want: %s", got, strings.Join(want, ", "))
	}
}

func (v *visits) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	token, _ := httpfence.TokenOf(r.Context())
	name := fmt.Sprint(token.Value)
	v.note("%s in", name)
	if stubborn := v.goOn[name]; stubborn != nil {
		<-stubborn
	} else if r.Method == http.MethodPut { // until the test ends it
		<-r.Context().Done()
		if !errors.Is(context.Cause(r.Context()), holdfast.ErrStale) {
			v.note("cause %v", context.Cause(r.Context()))
		}
	}
	v.note("%s out", name)
}

// The requests of earlier holders end before a request of a later holder is served.
func TestOlderEndFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v visits
		h := handler(t, v.ServeHTTP, httpfence.Options{})
		for range 2 {
			go ask(h, "PUT", "/", "5")
			synctest.Wait()
		}
		began := time.Now()
		has(t, ask(h, "POST", "/", "6"), http.StatusOK, "")
		v.are(t, "5 in", "5 in", "5 out", "5 out", "6 in", "6 out")
		if took := time.Since(began); took != 0 {
			t.Errorf("it took %v", took)
		}
		has(t, ask(h, "POST", "/", "5"), http.StatusPreconditionFailed, "stale")
	})
}

// Requests of one holder, and of different resources, do not wait for one another.
func TestOthersDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visits{goOn: map[string]chan struct{}{"5": make(chan struct{})}}
		h := handler(t, v.ServeHTTP, httpfence.Options{Resource: func(r *http.Request) string { return r.URL.Path }})
		go ask(h, "PUT", "/a", "5")
		go ask(h, "PUT", "/a", "5")
		synctest.Wait()
		has(t, ask(h, "POST", "/b", "6"), http.StatusOK, "")
		close(v.goOn["5"])
		synctest.Wait()
		v.are(t, "5 in", "5 in", "6 in", "6 out", "5 out", "5 out")
	})
}

// If a request ignores the end of its context, all newer ones wait for Patience, once,
// and it is logged.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visits{goOn: map[string]chan struct{}{"5": make(chan struct{})}}
		var log bytes.Buffer
		h := handler(t, v.ServeHTTP, httpfence.Options{Patience: 7 * time.Second, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		go ask(h, "PUT", "/", "5")
		synctest.Wait()
		began := time.Now()
		at7 := func() {
			has(t, ask(h, "GET", "/", "6"), http.StatusOK, "")
			if took := time.Since(began); took != 7*time.Second {
				t.Errorf("it took %v", took)
			}
		}
		go func() {
			time.Sleep(3 * time.Second)
			at7()
		}()
		at7()
		synctest.Wait()
		at7()
		close(v.goOn["5"])
		synctest.Wait()
		if first, last := v.events[0], v.events[len(v.events)-1]; first != "5 in" || last != "5 out" || len(v.events) != 8 {
			t.Errorf("events: %v", v.events)
		}
		if text := log.String(); strings.Count(text, "level=WARN") != 1 || !strings.Contains(text, "token=5") {
			t.Errorf("log: %s", text)
		}
	})
}

// A waiting request is overtaken itself, or its client goes away.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := visits{goOn: map[string]chan struct{}{"5": make(chan struct{})}}
		var log bytes.Buffer
		h := handler(t, v.ServeHTTP, httpfence.Options{Patience: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		var all sync.WaitGroup
		all.Go(func() { ask(h, "PUT", "/", "5") })
		synctest.Wait()
		all.Go(func() { has(t, ask(h, "POST", "/", "6"), http.StatusPreconditionFailed, "stale") })
		synctest.Wait()
		ctx, hangUp := context.WithCancel(t.Context())
		all.Go(func() {
			r := httptest.NewRequestWithContext(ctx, "POST", "/", nil)
			r.Header.Set(httpfence.Header, "7")
			h.ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		hangUp()
		synctest.Wait()
		close(v.goOn["5"])
		all.Wait()
		v.are(t, "5 in", "5 out")
		has(t, ask(h, "POST", "/", "7"), http.StatusOK, "")
		if log.Len() > 0 {
			t.Errorf("log: %s", log.String())
		}
	})
}

// slow is a Newest whose Load returns what it read before the test lets it continue, and
// which ignores its ctx.
type slow struct {
	httpfence.Memory
	read chan chan struct{}
}

func (s *slow) Load(ctx context.Context, resource string) (uint64, error) {
	seen, err := s.Memory.Load(ctx, resource)
	if s.read != nil {
		goOn := make(chan struct{})
		s.read <- goOn
		<-goOn
	}
	return seen, err
}

// If a newer request comes after a request has compared its token and before it reaches
// the service, the request is not served.
func TestOvertakenAtTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v visits
		s := &slow{}
		h := handler(t, v.ServeHTTP, httpfence.Options{Newest: s})
		has(t, ask(h, "POST", "/", "5"), http.StatusOK, "")
		s.read = make(chan chan struct{})
		var all sync.WaitGroup
		all.Go(func() { has(t, ask(h, "POST", "/", "5"), http.StatusPreconditionFailed, "stale") })
		older := <-s.read
		all.Go(func() { has(t, ask(h, "POST", "/", "6"), http.StatusOK, "") })
		close(<-s.read)
		synctest.Wait()
		v.are(t, "5 in", "5 out") // the newer request waits
		close(older)
		all.Wait()
		v.are(t, "5 in", "5 out", "6 in", "6 out")
	})
}

// bodies runs a test on servers of both versions of HTTP.
func bodies(t *testing.T, h http.Handler, run func(t *testing.T, server *httptest.Server)) {
	for _, http2 := range []bool{false, true} {
		t.Run(map[bool]string{false: "HTTP/1.1", true: "HTTP/2"}[http2], func(t *testing.T) {
			server := httptest.NewUnstartedServer(h)
			server.EnableHTTP2 = http2
			server.StartTLS()
			defer server.Close()
			run(t, server)
		})
	}
}

// sender is a client that is sending a body.
type sender struct {
	t   *testing.T
	out *io.PipeWriter
}

func pipe(t *testing.T) (*io.PipeReader, sender) {
	in, out := io.Pipe()
	return in, sender{t, out}
}

// send sends a part, unless the server has already answered.
func (s sender) send(part string) {
	if _, err := io.WriteString(s.out, part); err != nil && !errors.Is(err, io.ErrClosedPipe) {
		s.t.Error(err)
	}
}

func (s sender) end() { s.out.Close() }

// If a holder is stopped in the middle of a body, the next holder waits only until the
// service notices, and the rest of the body never reaches the service.
func TestStoppedInBody(t *testing.T) {
	half := make(chan struct{}, 1)
	got := make(chan error, 1)
	token := 0
	h := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		in := bufio.NewReader(r.Body)
		line, err := in.ReadString('\n')
		if err != nil {
			return // a request of the newer holder
		}
		half <- struct{}{}
		rest, err := io.ReadAll(in)
		if line != "half\n" || len(rest) > 0 {
			t.Errorf("read %q and %q", line, rest)
		}
		got <- err
	}, httpfence.Options{Patience: time.Hour})
	bodies(t, h, func(t *testing.T, server *httptest.Server) {
		token += 2
		in, out := pipe(t)
		var old sync.WaitGroup
		old.Go(func() {
			_, _, _ = newUser(t, server, server.URL).send("POST", "/", token, in)
			in.Close()
		})
		out.send("half\n")
		<-half
		newUser(t, server, server.URL).served("POST", "/", token+1, "")
		if err := <-got; err == nil {
			t.Error("the body of the older request seems to be complete")
		}
		out.send("the rest")
		out.end()
		old.Wait()
	})
}

// The same is true for a holder that reads no response.
func TestStoppedInResponse(t *testing.T) {
	wrote := make(chan error, 1)
	token := 0
	h := handler(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			return
		}
		var err error
		for chunk := make([]byte, 1<<16); err == nil; {
			_, err = w.Write(chunk)
		}
		wrote <- err
	}, httpfence.Options{Patience: 100 * time.Millisecond})
	bodies(t, h, func(t *testing.T, server *httptest.Server) {
		token += 2
		r := httptest.NewRequestWithContext(t.Context(), "POST", server.URL, strings.NewReader("much"))
		r.RequestURI = "" // it is a client's request now
		r.Header.Set(httpfence.Header, fmt.Sprint(token))
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		newUser(t, server, server.URL).served("GET", "/", token+1, "")
		if err := <-wrote; err == nil {
			t.Error("the response of the older request seems to be complete")
		}
	})
}

// plainWriter is the writer of a middleware that hides what it wraps.
type plainWriter struct{ http.ResponseWriter }

// If reads cannot be made to fail at once, they fail when data arrives.
func TestHiddenWriter(t *testing.T) {
	half, got := make(chan struct{}), make(chan error)
	fence := handler(t, func(_ http.ResponseWriter, r *http.Request) {
		in := bufio.NewReader(r.Body)
		if _, err := in.ReadString('\n'); err != nil {
			return
		}
		half <- struct{}{}
		_, err := in.ReadString('\n')
		got <- err
	}, httpfence.Options{Patience: time.Millisecond})
	server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fence.ServeHTTP(plainWriter{w}, r) }))
	in, out := pipe(t)
	var old sync.WaitGroup
	old.Go(func() {
		_, _, _ = newUser(t, server, server.URL).send("POST", "/", 5, in)
		in.Close()
	})
	out.send("half\n")
	<-half
	newUser(t, server, server.URL).served("POST", "/", 6, "")
	out.send("the rest\n")
	if err := <-got; !errors.Is(err, holdfast.ErrStale) {
		t.Errorf("error %v", err)
	}
	out.end()
	old.Wait()
}
