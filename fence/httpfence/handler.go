package httpfence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/internal/foreign"
)

// Options say what a Handler protects. Resource, Newest and Trust are required.
type Options struct {
	// Resource returns the resource whose lock protects what the request reads or
	// changes, for example from the request's path. It must not trust the client where
	// the service does not. An empty or invalid name is answered with 400.
	Resource func(*http.Request) string
	// Newest keeps the newest tokens: a *Memory, a *Table, or an implementation of your
	// own.
	Newest Newest
	// Trust decides whether a token that is larger than the newest one seen may become
	// the newest. It is called only for such tokens, and before they are registered. Held
	// asks the store of the locks. If all callers are authenticated and trusted to send
	// only their own tokens, Trust may return nil.
	//
	// Its error is holdfast.ErrStale if the token's hold has ended (412), ErrUntrusted if
	// the caller may not do that (403), and any other error if the answer is unknown
	// (503, or 500 for the lasting errors of package holdfast).
	Trust func(*http.Request, Token) error
	// Patience is how long the first requests of a new holder wait until the service has
	// ended the requests of earlier holders, whose contexts have ended. Requests that
	// take longer then go on beside the new ones. Default: 5 s.
	Patience time.Duration
	// Logger gets the errors that are answered with 500 or 503, and a warning for each
	// request that waited for Patience. Default: none.
	Logger *slog.Logger
}

const defaultPatience = 5 * time.Second

// Handler lets a request through to a service only if its token is not stale.
type Handler struct {
	next http.Handler
	opts Options
	gate gate
}

// New returns a Handler in front of next. Two Handlers for one resource must be in front
// of different data, because neither knows the tokens and requests of the other. The
// error is holdfast.ErrInvalid if a required option is missing.
func New(next http.Handler, opts *Options) (*Handler, error) {
	switch {
	case next == nil:
		return nil, invalid("there is no service")
	case opts == nil || opts.Resource == nil || opts.Newest == nil || opts.Trust == nil:
		return nil, invalid("Options.Resource, Newest and Trust must be set")
	case opts.Patience < 0:
		return nil, invalid("Options.Patience is negative")
	}
	h := &Handler{next: next, opts: *opts}
	h.opts.Patience = cmp.Or(h.opts.Patience, defaultPatience)
	h.opts.Logger = cmp.Or(h.opts.Logger, slog.New(slog.DiscardHandler))
	h.gate = gate{patience: h.opts.Patience, logger: h.opts.Logger, inside: make(map[string]map[*visit]struct{})}
	return h, nil
}

func invalid(what string) error { return fmt.Errorf("httpfence: %w: %s", holdfast.ErrInvalid, what) }

// ServeHTTP calls the service if the token of the request is or becomes the newest one.
// The context of the request then has the token (TokenOf), and ends when a request with a
// newer token arrives; its cause is holdfast.ErrStale. If the service then returns
// without having begun an answer, ServeHTTP refuses the request with 412.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", Header) // the next holder must not get what this one reads
	t, err := h.tokenOf(r)
	if err != nil {
		Refuse(w, err)
		return
	}
	v := h.gate.enter(context.WithValue(r.Context(), tokenKey{}, t), w, r, t)
	defer h.gate.leave(v)
	r = r.WithContext(v.ctx)
	if err := h.admit(r, v); err != nil {
		if v.overtaken() {
			err = errOvertaken // and not its effect on a running query
		} else if v.ctx.Err() != nil {
			err = foreign.Error(v.ctx, err) // the cause of the request's own ctx is not an answer
		}
		h.log(r, t, err)
		Refuse(w, err)
		return
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = body{r.Body, v}
	}
	answer := &response{ResponseWriter: w}
	h.next.ServeHTTP(answer, r)
	if v.overtaken() && !answer.begun.Load() {
		Refuse(w, errUnanswered)
	}
}

// errUnanswered means that the service was overtaken and returned without an answer.
var errUnanswered = &refusal{
	staleKind, "a request with a newer fencing token came while this one was served: what it asks for may have been done or not", errOvertaken,
}

// tokenOf returns the token of the request, with the resource that it must belong to.
func (h *Handler) tokenOf(r *http.Request) (Token, error) {
	resource := h.opts.Resource(r)
	if err := driver.ValidResource(resource); err != nil {
		return Token{}, &refusal{malformedKind, fmt.Sprintf("the request names no resource: %v", err), err}
	}
	values := r.Header.Values(Header)
	switch len(values) {
	case 0:
		detail := fmt.Sprintf("the lock of %q protects this: send its fencing token in the header %s", resource, Header)
		return Token{}, &refusal{missingKind, detail, holdfast.ErrInvalid}
	case 1:
	default:
		return Token{}, malformed("there are %d of them", len(values))
	}
	t, err := parse(values[0])
	switch {
	case err != nil:
		return Token{}, err
	case t.Resource != "" && t.Resource != resource:
		return Token{}, malformed("the token is of %q, but the lock of %q protects this", t.Resource, resource)
	}
	t.Resource = resource
	return t, nil
}

// admit returns nil if the service may be called.
func (h *Handler) admit(r *http.Request, v *visit) error {
	seen, err := h.opts.Newest.Load(v.ctx, v.Resource)
	switch {
	case err != nil:
		return err
	case v.Value < seen:
		return stale(v.Resource, v.Value, seen)
	case v.Value > seen:
		if err := h.opts.Trust(r, v.Token); err != nil {
			return err
		}
		if err := h.opts.Newest.Raise(v.ctx, v.Resource, v.Value); err != nil {
			return err
		}
	}
	return h.gate.clear(v)
}

func (h *Handler) log(r *http.Request, t Token, err error) {
	if k := refusalOf(err).kind; k != unknownKind && k != unusableKind || errors.Is(err, context.Canceled) {
		return
	}
	h.opts.Logger.ErrorContext(r.Context(), "httpfence: token could not be checked", "resource", t.Resource, "token", t.Value, "error", err)
}

// Format implements fmt.Formatter. It prints only the name of the type.
func (h *Handler) Format(f fmt.State, _ rune) { fmt.Fprint(f, "httpfence.Handler") }
