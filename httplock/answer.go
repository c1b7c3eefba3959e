package httplock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// maxAnswer is the largest number of bytes read from an answer. The largest answers
	// are a refusal with a hundred holders and the results of a batch.
	maxAnswer = 16 << 20
	// maxStoreID is the longest ID of a store, in bytes.
	maxStoreID = 128
)

// understand reads the answer to the message into v. If v is nil, the answer is a stream,
// and only its head is checked. A refusal becomes the error of package driver that it
// stands for, if the server wrote it and not a proxy.
func (s *Store) understand(res *http.Response, m message, v any) error {
	refused, want := wire.Refusal{}, cmp.Or(m.accept, wire.JSON)
	if res.StatusCode != http.StatusOK {
		v, want = &refused, wire.ProblemJSON
	}
	if err := s.hasType(res, want); err != nil {
		return err
	}
	if v != nil {
		if err := s.read(res, v); err != nil {
			return err
		}
	}
	kind := refused.Kind()
	if res.StatusCode != http.StatusOK && (kind == "" || refused.Status != res.StatusCode) {
		return s.unexpected("status %d with a problem of another kind", res.StatusCode)
	}
	if err := s.sameStore(res, refused.Detail); err != nil || kind == "" {
		return err
	}
	if kind == wire.KindBusy && res.Header.Get("WWW-Authenticate") != "" {
		kind = wire.KindAnonymous // there are too many anonymous requests
	}
	return s.meaning(kind, refused, m.of)
}

// meaning returns the error of a refusal by the server. of is message.of.
func (s *Store) meaning(kind wire.Kind, r wire.Refusal, of driver.HoldRef) error {
	switch kind {
	case wire.KindHeld:
		var held *driver.HeldError
		switch {
		case !errors.As(r.Err(), &held) || !soundRefusal(r.Held, held):
			return s.unexpected("a refusal without its reason")
		case of.HoldID.IsZero() || r.HoldID != of.HoldID || r.Resource != of.Resource:
			return s.unexpected("it refuses another request")
		}
		for i, h := range r.Holders {
			held.Holders[i] = s.own.status(h)
		}
		return held
	case wire.KindAnonymous:
		if s.token.propagating() {
			return fmt.Errorf("%s: the server does not know the token: its file has just been changed, so try again: %s", s.target.name, r.Detail)
		}
		advice := fmt.Sprintf("give the caller's token in a file, ?token_file=FILE, or in %s", tokenVariable)
		switch {
		case s.token.get() == "":
		case s.target.cert != "":
			advice = "give a token or a certificate, or those of one caller"
		default:
			advice = "it does not know the token: ask for a new one"
		}
		return fmt.Errorf("%w: %s: the server does not know who asks: %s (%s)", driver.ErrUnusable, s.target.name, r.Detail, advice)
	case wire.KindNotFound, wire.KindMethod:
		err := fmt.Errorf("%w: %s: the server does not have version 1 of the API: %s", driver.ErrUnusable, s.target.name, r.Detail)
		if path := s.target.base.Path; strings.Trim(path, "/") != "" && !strings.Contains(path, "@") { // the path may follow a password
			return fmt.Errorf("%w; its URL has the path %q: leave that out, unless a proxy has the API there", err, path)
		}
		return err
	}
	return fmt.Errorf("%s: %w", s.target.name, r.Err())
}

// hasType checks by its media type whether the server wrote the answer.
func (s *Store) hasType(res *http.Response, want string) error {
	header := res.Header.Get("Content-Type")
	media, _, err := mime.ParseMediaType(header)
	if header == "" && res.StatusCode == http.StatusBadRequest && s.target.base.Scheme == "http" && wantsTLS(res.Body) {
		return s.unexpected("the server speaks TLS: write https://")
	}
	if err != nil || media != want {
		return s.unexpected("status %d and content type %.100q, so holdfast did not write it: look at what is between this program and the server",
			res.StatusCode, header)
	}
	if encoding := res.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return s.unexpected("it is encoded as %.100q, which was not asked for", encoding)
	}
	return nil
}

// wantsTLS reports whether the answer is that of net/http to plain HTTP on a TLS port.
func wantsTLS(body io.Reader) bool {
	const says = "Client sent an HTTP request to an HTTPS server"
	text, _ := io.ReadAll(io.LimitReader(body, int64(len(says))))
	return string(text) == says
}

// read reads the whole answer into v.
func (s *Store) read(res *http.Response, v any) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%s: the answer was cut off: %v", s.target.name, err)
	case len(text) > maxAnswer:
		return s.unexpected("it is longer than %d bytes", maxAnswer)
	case !utf8.Valid(text):
		return s.unexpected("it is not UTF-8")
	case !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")):
		return s.unexpected("it is not a JSON object") // null would leave v as it is
	}
	if err := json.Unmarshal(text, v); err != nil {
		return s.unexpected("%v", err)
	}
	return nil
}

// sameStore checks that the store behind the server is the same as at the first answer. detail
// is that of a refusal, which may say why the server is not ready.
func (s *Store) sameStore(res *http.Response, detail string) error {
	ids := res.Header.Values(wire.StoreHeader)
	if len(ids) != 1 || ids[0] == "" || len(ids[0]) > maxStoreID || strings.ContainsAny(ids[0], " ,") {
		if detail != "" {
			detail = ": " + detail
		}
		return s.unexpected("status %d without one header %s, so holdfast did not write it, or is not ready%s",
			res.StatusCode, wire.StoreHeader, detail)
	}
	s.storeID.CompareAndSwap(nil, &ids[0])
	if first := *s.storeID.Load(); first != ids[0] {
		return fmt.Errorf("%w: %s: the server answers for store %q, and before it was %q: two stores under one name grant a lock twice. "+
			"Give all servers of that name the same --store. If you have moved the locks to another store, restart this program",
			driver.ErrUnusable, s.target.name, ids[0], first)
	}
	return nil
}

// sound reports whether a store can have returned the duration.
func sound(d time.Duration) bool { return d >= 0 || d == driver.Unknown }

func soundRefusal(r *wire.Held, e *driver.HeldError) bool {
	if e.Waiters < 0 || !sound(e.RetryAfter) || r.Position != nil && *r.Position < 1 {
		return false
	}
	return !slices.ContainsFunc(e.Holders, func(h driver.Status) bool { return !soundHold(h) }) &&
		!slices.ContainsFunc(e.Ahead, func(p driver.Place) bool { return !soundPlace(p) })
}

// soundHold checks a hold in an answer. The caller may see only a part of others' holds.
func soundHold(h driver.Status) bool {
	return h.Resource != "" && sound(h.Left) && h.TakeoverDelay >= 0 && h.Token <= driver.MaxToken
}

func soundPlace(p driver.Place) bool {
	return p.Resource != "" && sound(p.Left) && p.Position >= 0
}
