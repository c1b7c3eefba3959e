package httpfence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(holderEnv); config != "" {
		os.Exit(holder(config))
	}
	goleak.VerifyTestMain(m)
}

// account is a service that stores a number.
type account struct {
	mu    sync.Mutex
	value int64
}

func (a *account) get() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.value
}

// ServeHTTP returns the number, after setting it to the body if there is one.
func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(text) > 0 {
		if a.value, err = strconv.ParseInt(string(text), 10, 64); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
	fmt.Fprint(w, a.value)
}

const resource = "accounts/17, the first"

// service serves the account behind a fence.
func service(t *testing.T, a http.Handler, newest httpfence.Newest, trust func(*http.Request, httpfence.Token) error) *httptest.Server {
	t.Helper()
	h, err := httpfence.New(a, &httpfence.Options{
		Resource: func(*http.Request) string { return resource },
		Newest:   newest,
		Trust:    trust,
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server
}

// spy keeps the error of a table, which clients do not see.
type spy struct {
	httpfence.Newest
	mu  sync.Mutex
	why error
}

func (s *spy) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.why = err
	}
	return err
}

func (s *spy) last() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

func (s *spy) Load(ctx context.Context, resource string) (uint64, error) {
	token, err := s.Newest.Load(ctx, resource)
	return token, s.note(err)
}

func (s *spy) Raise(ctx context.Context, resource string, token uint64) error {
	return s.note(s.Newest.Raise(ctx, resource, token))
}

// send sends a write to the service, or a read if value is empty.
func send(ctx context.Context, server *httptest.Server, s *spy, value string, token uint64) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(value))
	if err != nil {
		return err
	}
	r.Header.Set(httpfence.Header, httpfence.Token{Resource: resource, Value: token}.String())
	resp, err := server.Client().Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch reason := resp.Header.Get(httpfence.RefusedHeader); {
	case resp.StatusCode == http.StatusOK:
		return nil
	case reason == "stale":
		return holdfast.ErrStale
	case reason == "malformed":
		return holdfast.ErrInvalid
	case (reason == "unusable") != errors.Is(s.last(), holdfast.ErrDamaged):
		return fmt.Errorf("the client is told %q, though the error is %w", reason, s.last())
	default:
		return s.last()
	}
}

func trusting(*http.Request, httpfence.Token) error { return nil }

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}
