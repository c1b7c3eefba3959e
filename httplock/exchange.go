package httplock

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// message is a request of the API.
type message struct {
	path   string
	query  url.Values
	body   []byte // of a POST; nil for a GET
	accept string // default: wire.JSON
	// of is the hold of an acquire. Only an acquire can be refused as held, and the refusal
	// repeats the resource and the ID.
	of driver.HoldRef
}

// call sends a request with the body, if that is not nil, and reads the answer into answer.
func (s *Store) call(ctx context.Context, over *lane, m message, body, answer any) (err error) {
	if body != nil {
		if m.body, err = json.Marshal(body); err != nil {
			return fmt.Errorf("%w: %w", driver.ErrInvalid, err)
		}
	}
	_, err = s.exchange(ctx, over, m, answer)
	return err
}

// exchange sends the message and reads the answer, which is complete unless there is an
// error. The status is that of the answer, even if a proxy wrote it, or 0.
func (s *Store) exchange(ctx context.Context, over *lane, m message, answer any) (status int, err error) {
	res, err := s.send(ctx, over, m, patience(ctx))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	return res.StatusCode, s.ended(ctx, s.understand(res, m, answer))
}

// send sends the message, and returns the answer unchecked.
func (s *Store) send(ctx context.Context, over *lane, m message, limit time.Duration) (*http.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	// If an acquire were sent twice here, the answer to the second request would be taken
	// for the answer to both. If the first one arrived later, it would acquire a lock that
	// the caller believes to be refused or has released.
	once := m.path == wire.AcquirePath
	res, err := over.send(ctx, limit, once, func(ctx context.Context) (*http.Request, error) { return s.request(ctx, m) })
	if err != nil {
		return nil, s.ended(ctx, s.explain(err))
	}
	return res, nil
}

// ended returns an error for a request that ended because ctx ended, or err otherwise.
func (s *Store) ended(ctx context.Context, err error) error {
	if cut := ctx.Err(); err != nil && cut != nil && wire.KindOf(err) == wire.KindUnknown && !errors.Is(err, cut) {
		return fmt.Errorf("%s: %w", s.target.name, cut)
	}
	return err
}

// refusesCertificate matches the alerts of TLS about a certificate or its absence. Their
// type is not exported.
var refusesCertificate = regexp.MustCompile(`^tls: (.* certificate( authority)?|certificate required|access denied)$`)

// explain returns the error of a request that got no answer. If the server's certificate
// is wrong, nothing was sent, and somebody has to fix it. The same is true if the server
// refuses the certificate of this caller: then it does not read requests.
func (s *Store) explain(err error) error {
	var advice string
	var remote *net.OpError
	switch invalid := (*tls.CertificateVerificationError)(nil); {
	case errors.As(err, new(x509.UnknownAuthorityError)):
		advice = "this machine does not trust the server's certificate; ?ca=FILE names those that may issue it"
	case errors.As(err, &invalid):
		advice = "the server's certificate does not fit the URL or this machine's clock"
	case !errors.As(err, &remote) || remote.Op != "remote error" || !refusesCertificate.MatchString(remote.Err.Error()):
		return fmt.Errorf("%s: %w", s.target.name, err)
	case s.target.cert == "":
		advice = "the server wants a certificate of its callers; ?cert=FILE&key=FILE names one"
	default:
		advice = fmt.Sprintf("the server does not accept the certificate in %s: it may have expired, or come from an authority that the server does not know", s.target.cert)
	}
	return fmt.Errorf("%w: %s: %s: %w", driver.ErrUnusable, s.target.name, advice, err)
}

func (s *Store) request(ctx context.Context, m message) (*http.Request, error) {
	method, body := http.MethodGet, io.Reader(nil)
	if m.body != nil {
		method, body = http.MethodPost, bytes.NewReader(m.body)
	}
	r, err := http.NewRequestWithContext(ctx, method, s.target.at(m.path, m.query).String(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "holdfast")
	r.Header.Set("Accept", cmp.Or(m.accept, wire.JSON)+", "+wire.ProblemJSON)
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
