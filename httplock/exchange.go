package httplock

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// message is a request of the API.
type message struct {
	method string
	path   string
	query  url.Values
	body   []byte
	accept string
	// once: a copy that arrives late would do harm that the caller cannot know of, so the
	// message is not sent again.
	once bool
	// of is the hold ID of an acquire: only that can be held, and the refusal repeats it.
	of driver.HoldID
}

// get asks for what the path has, and reads it into answer.
func (s *Store) get(ctx context.Context, path string, query url.Values, answer any) error {
	_, err := s.exchange(ctx, s.calls, message{method: http.MethodGet, path: path, query: query, accept: wire.JSON}, answer)
	return err
}

// post sends a request and reads what it is answered into answer.
func (s *Store) post(ctx context.Context, over *lane, path string, request, answer any) error {
	body, err := marshal(request)
	if err != nil {
		return err
	}
	_, err = s.exchange(ctx, over, message{method: http.MethodPost, path: path, body: body, accept: wire.JSON}, answer)
	return err
}

// marshal returns the JSON of a type of package wire.
func marshal(v any) (json.RawMessage, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	return text, nil
}

// exchange sends the message and reads the answer, which is complete unless there is an
// error. The status is that of the answer, whoever wrote it, or 0.
func (s *Store) exchange(ctx context.Context, over *lane, m message, answer any) (status int, err error) {
	res, err := s.send(ctx, over, m, patience(ctx))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, s.ended(ctx, s.understand(res, m.of, answer))
}

// send sends the message, and returns an answer of which nothing was looked at.
func (s *Store) send(ctx context.Context, over *lane, m message, limit time.Duration) (*http.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	res, err := over.send(ctx, limit, m.once, func(ctx context.Context) (*http.Request, error) { return s.request(ctx, m) })
	if err != nil {
		return nil, s.ended(ctx, s.explain(err))
	}
	return res, nil
}

// ended returns the error of ctx, which may have ended a request with another one.
func (s *Store) ended(ctx context.Context, err error) error {
	if cut := ctx.Err(); err != nil && cut != nil && wire.KindOf(err) == wire.KindUnknown && !errors.Is(err, cut) {
		return fmt.Errorf("%s: %w", s.target.name, cut)
	}
	return err
}

// explain returns the error of a request that got no answer. If the server's certificate
// is wrong, nothing was sent, and somebody has to fix it.
func (s *Store) explain(err error) error {
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return fmt.Errorf("%w: %s: this machine does not trust the server's certificate; ?ca=FILE names those that may issue it: %w",
			driver.ErrUnusable, s.target.name, err)
	}
	return fmt.Errorf("%s: %w", s.target.name, err)
}

func (s *Store) request(ctx context.Context, m message) (*http.Request, error) {
	var body io.Reader
	if m.body != nil {
		body = bytes.NewReader(m.body)
	}
	r, err := http.NewRequestWithContext(ctx, m.method, s.target.at(m.path, m.query).String(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "holdfast")
	r.Header.Set("Accept", m.accept+", "+wire.ProblemJSON)
	if m.body != nil {
		r.Header.Set("Content-Type", wire.JSON)
	}
	if token := s.token.get(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if deadline, ok := ctx.Deadline(); ok {
		left := min(max(time.Until(deadline).Milliseconds(), 1), math.MaxUint32)
		r.Header.Set(wire.TimeoutHeader, strconv.FormatInt(left, 10))
	}
	return r, nil
}
