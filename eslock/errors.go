package eslock

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// The server's types of errors that are understood.
const (
	documentMissing = "document_missing_exception"
	conflict        = "version_conflict_engine_exception"
	indexMissing    = "index_not_found_exception"
	indexClosed     = "index_closed_exception"
	indexThere      = "resource_already_exists_exception"
	blocked         = "cluster_block_exception"
	scriptError     = "script_exception"
)

// serverError is how a server explains that it did not do something.
type serverError struct {
	Status int
	Type   string
	Reason string
	Cause  string // the innermost
	Index  string // that it is about
	raw    json.RawMessage
}

func (e *serverError) Error() string {
	text := fmt.Sprintf("status %d", e.Status)
	if e.Type != "" {
		text += ": " + e.Type
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	if e.Cause != "" && e.Cause != e.Reason {
		text += ": " + e.Cause
	}
	return text
}

// understandError reads the "error" of an answer: an object, or a text.
func understandError(status int, raw json.RawMessage) *serverError {
	type cause struct {
		Type     string `json:"type"`
		Reason   string `json:"reason"`
		Index    string `json:"index"`
		CausedBy *cause `json:"caused_by"`
	}
	e := &serverError{Status: status, raw: raw}
	var c cause
	if err := json.Unmarshal(raw, &c); err != nil {
		if json.Unmarshal(raw, &e.Reason) != nil {
			e.Reason = "an error that cannot be understood"
		}
		return e
	}
	e.Type, e.Reason, e.Index = c.Type, c.Reason, c.Index
	for by := c.CausedBy; by != nil; by = by.CausedBy {
		e.Cause = by.Reason
	}
	return e
}

// refusal is the error of an answer with a status other than 2xx.
func refusal(res *http.Response, text []byte) error {
	var body struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(text, &body) == nil && len(body.Error) > 0 {
		return understandError(res.StatusCode, body.Error)
	}
	switch res.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge: // a proxy, or a security plugin
		return &serverError{Status: res.StatusCode}
	}
	return notJSON(res)
}

// notJSON is the error of an answer that is none of Elasticsearch or OpenSearch,
// or was cut off. It shows nothing of the answer, which is anybody's.
func notJSON(res *http.Response) error {
	kind, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		kind = "unknown type"
	}
	return fmt.Errorf("status %d with an answer (%s) that is not from Elasticsearch or OpenSearch, or not all of it", res.StatusCode, kind)
}

func isConflict(err error) bool {
	var e *serverError
	return errors.As(err, &e) && e.Status == http.StatusConflict && e.Type == conflict
}

func isTooLarge(err error) bool {
	var e *serverError
	return errors.As(err, &e) && e.Status == http.StatusRequestEntityTooLarge
}

func hasType(err error, kind string) bool {
	var e *serverError
	return errors.As(err, &e) && e.Type == kind
}

// indexError names the index that an error is about.
type indexError struct {
	index string
	// why says what lasts until somebody mends it, and was not done: the error is
	// driver.ErrUnusable then. All else is of unknown outcome.
	why string
	err error
}

func (e *indexError) Error() string {
	text := "index " + e.index
	if e.why != "" {
		text = driver.ErrUnusable.Error() + ": " + text + ": " + e.why
	}
	if e.err != nil {
		text += ": " + e.err.Error()
	}
	return text
}

func (e *indexError) Unwrap() error { return e.err }

// Is implements the interface of errors.Is.
func (e *indexError) Is(target error) bool { return e.why != "" && target == driver.ErrUnusable }

// wrap names the index, once. What lasts becomes driver.ErrUnusable.
func (s *Store) wrap(err error) error {
	var named *indexError
	if err == nil || errors.Is(err, driver.ErrUnusable) || errors.As(err, &named) {
		return err
	}
	var e *serverError
	if errors.As(err, &e) {
		return &indexError{s.o.Index, s.lasting(e), err}
	}
	return &indexError{s.o.Index, "", err}
}

// wrapAt is wrap that also names the server.
func (s *Store) wrapAt(res *http.Response, err error) error {
	if res.Request != nil && res.Request.URL != nil && res.Request.URL.Host != "" {
		err = fmt.Errorf("%s: %w", res.Request.URL.Host, err)
	}
	return s.wrap(err)
}

// unusable says why the index cannot be used, and because of which error, if of any.
func (s *Store) unusable(why string, err error) error {
	var named *indexError
	if errors.As(err, &named) {
		err = named.err
	}
	return &indexError{s.o.Index, why, err}
}

// lasting says how to mend what does not go away by asking again, or "".
func (s *Store) lasting(e *serverError) string {
	switch {
	case e.Type == blocked && strings.Contains(e.Reason, "read-only-allow-delete"),
		e.Type == blocked && strings.Contains(e.Reason, "/12/"):
		return "it is read-only, as the server makes it when a disk is nearly full: free space on the disk, and set index.blocks.read_only_allow_delete to null if the server does not"
	case e.Type == indexClosed, e.Type == blocked && strings.Contains(e.Reason, "index closed"):
		return "it is closed: open it (POST /" + s.o.Index + "/_open)"
	case e.Type == blocked && e.Status == http.StatusForbidden:
		return "writes are blocked: set the index.blocks that the error names to null"
	case e.Type == indexMissing:
		return "it is gone, or its alias is: when the store is opened the next time it is made anew"
	case e.Status == http.StatusRequestEntityTooLarge:
		return "the server, or a proxy before it, takes no request of a few kilobytes: raise its limit"
	case e.Status == http.StatusUnauthorized:
		return "the server refuses user, password or key"
	case e.Status == http.StatusForbidden:
		return "the user lacks a right that the store needs: read, write and manage for " + s.o.Index + "*"
	case e.Type == scriptError && strings.Contains(e.Reason, "compile error"),
		e.Type == "illegal_argument_exception" && strings.Contains(e.Reason, "cannot execute"):
		return "the server does not take inline Painless scripts in updates, which the store needs"
	case e.Type == "mapper_parsing_exception", e.Type == "document_parsing_exception", e.Type == "strict_dynamic_mapping_exception":
		return "its mapping does not fit"
	}
	return ""
}
