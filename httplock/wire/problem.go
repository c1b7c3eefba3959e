package wire

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/holdfast-go/holdfast/driver"
)

// Kind is the type of a Refusal, without its prefix.
type Kind string

// The kinds of refusals. Except for KindUnknown, the request was certainly not applied.
const (
	KindInvalid     Kind = "invalid"         // 400
	KindAnonymous   Kind = "unauthenticated" // 401: no token or certificate, or an unknown one
	KindDenied      Kind = "denied"          // 403
	KindNotFound    Kind = "not-found"       // 404: unknown path
	KindMethod      Kind = "method"          // 405
	KindHeld        Kind = "held"            // 409
	KindTooLarge    Kind = "too-large"       // 413
	KindMediaType   Kind = "media-type"      // 415
	KindMisdirected Kind = "misdirected"     // 421: not a name of this server
	KindDamaged     Kind = "damaged"         // 422
	KindBusy        Kind = "busy"            // 429
	KindUnusable    Kind = "unusable"        // 500
	KindUnsupported Kind = "unsupported"     // 501
	KindUnknown     Kind = "unknown"         // 503: the request may be applied, now or later
	KindDraining    Kind = "draining"        // 503: the server shuts down, and did not apply the request
	typePrefix           = "urn:holdfast:"   // prefix of Refusal.Type
	maxHolders           = 100               // in a refusal
)

var statuses = map[Kind]int{
	KindInvalid:     http.StatusBadRequest,
	KindAnonymous:   http.StatusUnauthorized,
	KindDenied:      http.StatusForbidden,
	KindNotFound:    http.StatusNotFound,
	KindMethod:      http.StatusMethodNotAllowed,
	KindHeld:        http.StatusConflict,
	KindTooLarge:    http.StatusRequestEntityTooLarge,
	KindMediaType:   http.StatusUnsupportedMediaType,
	KindMisdirected: http.StatusMisdirectedRequest,
	KindDamaged:     http.StatusUnprocessableEntity,
	KindBusy:        http.StatusTooManyRequests,
	KindUnusable:    http.StatusInternalServerError,
	KindUnsupported: http.StatusNotImplemented,
	KindUnknown:     http.StatusServiceUnavailable,
	KindDraining:    http.StatusServiceUnavailable,
}

// Kinds returns all kinds and the status of each.
func Kinds() map[Kind]int { return maps.Clone(statuses) }

// Refusal is an answer that is not a success: a problem of RFC 9457 with the media type
// ProblemJSON.
type Refusal struct {
	Type   string `json:"type"` // the kind with its prefix
	Title  string `json:"title"`
	Status int    `json:"status"`
	// Detail is a text for people.
	Detail string `json:"detail"`
	// RetryAfterMs is when another attempt may succeed: for a resource that is held, when
	// the holds in the way end unless they are renewed, -1 if they have no end. It is
	// absent if that is unknown.
	RetryAfterMs *Millis `json:"retryAfterMs,omitempty"`
	// Held is set if the resource is held.
	*Held
}

// Held has the members of a refusal because the resource is held.
type Held struct {
	Resource string `json:"resource"`
	// HoldID is the hold ID of the request, if it had one, see RenewResult.
	HoldID driver.HoldID `json:"holdId,omitzero"`
	// Holders are the first 100 holds of the resource.
	Holders []Hold `json:"holders"`
	// Position is the position of the caller in the queue, 1 if it is next. It is null if
	// the caller has no place.
	Position *int `json:"position"`
	// Waiters is the number of places in the queue.
	Waiters int `json:"waiters"`
	// Ahead are the first places that are served before the caller.
	Ahead        []Waiter `json:"ahead"`
	BySelf       bool     `json:"bySelf"` // the lock ID of the request has the hold
	LimitDiffers bool     `json:"limitDiffers"`
	// WaitMs is how long the server was willing to wait, which may be less than
	// requested.
	WaitMs Millis `json:"waitMs"`
}

// NewRefusal returns a refusal of the kind.
func NewRefusal(kind Kind, detail string) Refusal {
	status := statuses[kind]
	return Refusal{Type: typePrefix + string(kind), Title: http.StatusText(status), Status: status, Detail: detail}
}

// HeldRefusal returns the refusal for e.
func HeldRefusal(e *driver.HeldError) Refusal {
	r := NewRefusal(KindHeld, e.Error())
	r.RetryAfterMs = known(e.RetryAfter, MillisUp)
	r.Held = &Held{
		Resource: e.Resource, Waiters: e.Waiters, BySelf: e.BySelf, LimitDiffers: e.LimitDiffers,
		Holders: each([]Hold{}, e.Holders[:min(len(e.Holders), maxHolders)], HoldOf), Ahead: each([]Waiter{}, e.Ahead, WaiterOf),
	}
	if e.Position != driver.NoPlace {
		first := e.Position + 1
		r.Position = &first
	}
	return r
}

// Kind returns the kind, or "" if the refusal is not one of this package, so that
// somebody else wrote it.
func (r Refusal) Kind() Kind {
	text, ours := strings.CutPrefix(r.Type, typePrefix)
	kind := Kind(text)
	if status, known := statuses[kind]; !ours || !known || status != r.Status {
		return ""
	}
	return kind
}

// each appends what of returns for each item.
func each[A, B any](to []B, items []A, of func(A) B) []B {
	for _, item := range items {
		to = append(to, of(item))
	}
	return to
}

// named has the names of the errors of package driver, and of ErrDenied.
var named = []struct {
	err  error
	name string
}{
	{ErrDenied, "denied"},
	{driver.ErrHeld, "held"}, // only of requests
	{driver.ErrLost, "lost"}, // only of items
	{driver.ErrInvalid, "invalid"},
	{driver.ErrDamaged, "damaged"},
	{driver.ErrUnusable, "unusable"},
	{driver.ErrUnsupported, "unsupported"},
}

// nameOf returns the name of the error, unless that is the one excluded.
func nameOf(err error, excluded string) string {
	for _, n := range named {
		if n.name != excluded && errors.Is(err, n.err) {
			return n.name
		}
	}
	return "unknown"
}

// KindOf returns the kind of a store's error. Errors without a name are KindUnknown.
func KindOf(err error) Kind { return Kind(nameOf(err, "lost")) }

// OutcomeOf returns the outcome of an item with this error.
func OutcomeOf(err error) Outcome { return Outcome(nameOf(err, "held")) }

// ErrDenied means that the caller lacks a right. Errors that wrap it are
// driver.ErrUnusable, too, because somebody has to grant the right.
var ErrDenied = errors.New("the caller does not have the right")

// denied is an error that wraps ErrDenied without its text: the server's text says more.
type denied struct{ error }

func (d denied) Unwrap() []error { return []error{d.error, ErrDenied} }

// unusable returns the error of a request that is impossible until somebody changes
// something.
func unusable(detail string) error {
	return fmt.Errorf("%w: the server refuses: %s", driver.ErrUnusable, detail)
}

// err returns the error of an item that was not applied. It is ErrDenied if the caller
// lacks a right.
func (o Outcome) err(detail string) error {
	if o == Denied {
		return denied{unusable(detail)}
	}
	for _, n := range named {
		if n.name == string(o) && n.name != "held" {
			return fmt.Errorf("%w: the server says: %s", n.err, detail)
		}
	}
	return fmt.Errorf("the server does not know the outcome: %s", detail)
}

// Err returns the error of package driver that the refusal stands for. For KindUnknown
// and for kinds that this package does not know, the error has no name: the outcome is
// unknown.
func (r Refusal) Err() error {
	switch kind := r.Kind(); kind {
	case KindHeld:
		if r.Held != nil && r.Resource != "" {
			return r.heldError()
		}
	case KindTooLarge, KindMediaType:
		return Invalid.err(r.Detail)
	case KindAnonymous, KindMisdirected, KindUnusable:
		return unusable(r.Detail)
	case KindInvalid, KindDenied, KindDamaged, KindUnsupported: // items may have these outcomes, too
		return Outcome(kind).err(r.Detail)
	}
	return fmt.Errorf("the server answered %d: %s", r.Status, r.Detail)
}

func (r Refusal) heldError() *driver.HeldError {
	e := &driver.HeldError{
		Resource: r.Resource, Position: driver.NoPlace, Waiters: r.Waiters, RetryAfter: left(r.RetryAfterMs),
		BySelf: r.BySelf, LimitDiffers: r.LimitDiffers,
		Holders: each(nil, r.Holders, Hold.Driver), Ahead: each(nil, r.Ahead, Waiter.Driver),
	}
	if r.Position != nil {
		e.Position = *r.Position - 1
	}
	return e
}
