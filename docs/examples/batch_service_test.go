//go:build unix

package examples_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

// service receives the files of customers behind a fence, and answers when the test wants it
// to.
type service struct {
	t    *testing.T
	url  string
	mu   sync.Mutex
	of   map[string]*customer
	news chan struct{} // closed when a request arrives
}

type customer struct {
	requests int           // requests that wait for an answer
	answer   chan struct{} // closed: requests need not wait
}

func newService(t *testing.T, locks *holdfast.Client) *service {
	t.Helper()
	s := &service{t: t, of: make(map[string]*customer), news: make(chan struct{})}
	fence, err := httpfence.New(http.HandlerFunc(s.put), &httpfence.Options{
		Resource: func(r *http.Request) string { return "customers/" + r.PathValue("customer") },
		Newest:   new(httpfence.Memory),
		Trust:    httpfence.Held(locks),
	})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("PUT /v1/{customer}/{file}", fence)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.url = server.URL + "/v1"
	return s
}

// customer returns the customer with the name. s.mu is held.
func (s *service) customer(name string) *customer {
	if s.of[name] == nil {
		s.of[name] = &customer{answer: make(chan struct{})}
	}
	return s.of[name]
}

func (s *service) put(w http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	name := r.PathValue("customer")
	s.mu.Lock()
	c := s.customer(name)
	answer := c.answer
	if c.requests++; c.requests > 1 {
		s.t.Errorf("%d requests of %s at a time", c.requests, name)
	}
	close(s.news)
	s.news = make(chan struct{})
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		c.requests--
		s.mu.Unlock()
	}()
	select {
	case <-answer:
	case <-r.Context().Done():
		http.Error(w, "too late", http.StatusServiceUnavailable)
	}
}

// busy waits until a request of the customer waits for its answer.
func (s *service) busy(customer string) {
	s.t.Helper()
	for limit := time.After(patience); ; {
		s.mu.Lock()
		busy, news := s.customer(customer).requests > 0, s.news
		s.mu.Unlock()
		if busy {
			return
		}
		select {
		case <-news:
		case <-limit:
			s.t.Fatalf("no request of %s within %v", customer, patience)
		}
	}
}

// answer answers the customer's requests from now on.
func (s *service) answer(customer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.customer(customer).answer)
}

// hold keeps the customer's next requests waiting until answer is called.
func (s *service) hold(customer string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.customer(customer).answer = make(chan struct{})
}
