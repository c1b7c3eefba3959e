package httpfence

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/holdfast-go/holdfast"
)

// RefusedHeader is the header of a response that says why a fence refused the request. It
// distinguishes the refusal from an answer of the service with the same status.
const RefusedHeader = "Holdfast-Refused"

// kind is a reason to refuse a request: the value of RefusedHeader.
type kind string

const (
	missingKind   kind = "missing"
	malformedKind kind = "malformed"
	staleKind     kind = "stale"
	untrustedKind kind = "untrusted"
	unusableKind  kind = "unusable"
	unknownKind   kind = "unknown"
)

// answers has the texts for clients. A refusal as stale does not contain the newest
// token: a client that knew it could send it.
var answers = map[kind]struct {
	status int
	detail string
}{
	missingKind:   {http.StatusPreconditionRequired, "send the fencing token of the lock in the header " + Header},
	malformedKind: {http.StatusBadRequest, "the fencing token is malformed"},
	staleKind:     {http.StatusPreconditionFailed, "the hold of this fencing token has ended, or a later one was seen: nothing was done"},
	untrustedKind: {http.StatusForbidden, "this request may not present a new fencing token"},
	unusableKind:  {http.StatusInternalServerError, "fencing tokens cannot be checked until an operator fixes it: nothing was done"},
	unknownKind:   {http.StatusServiceUnavailable, "the fencing token could not be checked: nothing was done, try again"},
}

// refusal is an error with a text that clients may see.
type refusal struct {
	kind   kind
	detail string
	err    error
}

func (r *refusal) Error() string { return "httpfence: " + r.detail }

func (r *refusal) Unwrap() error { return r.err }

// refusalOf returns what to tell the client about err. It hides the texts of other
// errors.
func refusalOf(err error) *refusal {
	if r := (*refusal)(nil); errors.As(err, &r) {
		return r
	}
	k := unknownKind
	switch {
	case errors.Is(err, holdfast.ErrStale):
		k = staleKind
	case errors.Is(err, ErrUntrusted):
		k = untrustedKind
	case errors.Is(err, holdfast.ErrDamaged), errors.Is(err, holdfast.ErrUnusable),
		errors.Is(err, holdfast.ErrUnsupported), errors.Is(err, holdfast.ErrInvalid):
		k = unusableKind
	}
	return &refusal{k, answers[k].detail, err}
}

// Refuse answers like a Handler that refuses the request because of err. It is for a
// service that checks the token again, in the transaction of its write. For
// holdfast.ErrStale the status is 412, and the client's Transport returns that error. The
// client does not see the text of err.
func Refuse(w http.ResponseWriter, err error) {
	r := refusalOf(err)
	status := answers[r.kind].status
	h := w.Header()
	for _, name := range []string{"Content-Length", "Content-Encoding", "Etag", "Last-Modified"} {
		h.Del(name) // of the body that the service had prepared
	}
	h.Set(RefusedHeader, string(r.kind))
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem{http.StatusText(status), status, r.detail}) // the client may be gone
}

// problem is the body of a refusal, by RFC 9457.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}
