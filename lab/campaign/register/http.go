package register

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// Server is a register behind HTTP. Any number of clients may use it.
//
//	PUT /RESOURCE with the header Token, and Fenced: true or false
type Server struct {
	mu     sync.Mutex
	values map[string]stored
}

// stored is the last value of a resource, with its token.
type stored struct {
	token uint64
	value string
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, err := strconv.ParseUint(r.Header.Get("Token"), 10, 64)
	value, readErr := io.ReadAll(io.LimitReader(r.Body, 1<<16))
	if r.Method != http.MethodPut || err != nil || readErr != nil {
		http.Error(w, "PUT a value with a token", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Header.Get("Fenced") != "false" && token < s.values[r.URL.Path].token {
		http.Error(w, ErrStale.Error(), http.StatusPreconditionFailed)
		return
	}
	if s.values == nil {
		s.values = make(map[string]stored)
	}
	s.values[r.URL.Path] = stored{token, string(value)}
}

type httpRegister struct {
	base   string
	client *http.Client
}

func openHTTP(base string) (Register, error) {
	return httpRegister{base, &http.Client{Transport: &http.Transport{}}}, nil
}

func (r httpRegister) Write(ctx context.Context, resource string, token uint64, value string, fenced bool) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPut, r.base+"/"+url.PathEscape(resource), strings.NewReader(value))
	if err != nil {
		return err
	}
	q.Header.Set("Token", strconv.FormatUint(token, 10))
	q.Header.Set("Fenced", strconv.FormatBool(fenced))
	answer, err := r.client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	switch answer.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusPreconditionFailed:
		return ErrStale
	}
	return fmt.Errorf("register: %s", answer.Status)
}

func (r httpRegister) Close() error {
	r.client.CloseIdleConnections()
	return nil
}
