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

// Options say what a Handler protects. The first three must be set.
type Options struct {
	// Resource returns the resource whose lock protects what the request reads or
	// changes, from the request's path, say. It must not take the client's word for it
	// where the service does not. An empty or invalid name is answered with 400.
	Resource func(*http.Request) string
	// Newest keeps the newest tokens: a *Memory, a *Table, or another.
	Newest Newest
	// Trust decides whether a token that is larger than the newest one seen may become
	// the newest. It is asked before that, and not for tokens that are not larger.
	// Held asks the store of the locks. If all requests come from callers that are
	// authenticated and trusted to send nothing but tokens of their own, it may return
	// nil.
	//
	// Its error is holdfast.ErrStale if the token's hold has ended (412), ErrUntrusted if
	// the caller may not do that (403), and any other one if it is not known (503, or 500
	// for those of package holdfast that last).
	Trust func(*http.Request, Token) error
	// Patience is how long the first requests of a new holder wait until the service has
	// ended those of earlier holders, whose contexts have ended. What takes longer then
	// goes on beside them. Default: 5 s.
	Patience time.Duration
	// Logger gets the errors that are answered with 500 or 503, and a warning of each
	// request that waited for Patience. Default: none.
	Logger *slog.Logger
}

const defaultPatience = 5 * time.Second

// Handler lets requests through to a service that have a token which is not stale.
type Handler struct {
	next http.Handler
	opts Options
	gate gate
}

// New returns a Handler in front of next. Two Handlers of one resource must be in front
// of different data, or the tokens and requests of the one are unknown to the other. The
// error is holdfast.ErrInvalid if an option is missing.
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

// ServeHTTP calls the service if the token of the request is the newest one, or becomes
// it. The context of the request then has the token (TokenOf), and ends when a request
// with a newer one comes; its cause is holdfast.ErrStale. If the service then returns
// without having begun an answer, ServeHTTP refuses the request, with 412.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", Header) // what one holder reads is not for the next
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
			err = errOvertaken // and not what it did to the query that was under way
		} else if v.ctx.Err() != nil {
			err = foreign.Error(v.ctx, err) // the cause of the request's own ctx is no answer
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

// errUnanswered: the service was overtaken and returned without an answer.
var errUnanswered = &refusal{
	staleKind, "a request with a newer fencing token came while this one was served: what it asks for may have been done or not", errOvertaken,
}

// tokenOf returns the token of the request, with the resource that it must be of.
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

// Format implements fmt.Formatter. It prints no more than what it is.
func (h *Handler) Format(f fmt.State, _ rune) { fmt.Fprint(f, "httpfence.Handler") }
