package otelholdfast

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/metrics/observe"
)

// The names of spans.
const (
	waitSpan    = "holdfast.wait"
	attemptSpan = "holdfast.attempt"
	holdSpan    = "holdfast.hold"
	releaseSpan = "holdfast.release"
)

// The keys of attributes.
const (
	groupKey    = attribute.Key("holdfast.group")
	lockIDKey   = attribute.Key("holdfast.lock.id")
	modeKey     = attribute.Key("holdfast.mode")
	holdIDKey   = attribute.Key("holdfast.hold.id")
	tokenKey    = attribute.Key("holdfast.token")
	outcomeKey  = attribute.Key("holdfast.outcome")
	causeKey    = attribute.Key("holdfast.cause")
	holdersKey  = attribute.Key("holdfast.holders") // the hold IDs of the holders
	positionKey = attribute.Key("holdfast.position")
	relationKey = attribute.Key("holdfast.relation") // of a link
	systemKey   = attribute.Key("db.system.name")
	errorKey    = attribute.Key("error.type")
)

// spans makes a span of each wait, attempt, hold and release. The spans are made later than
// their events, so all their times are set.
type spans struct {
	tracer trace.Tracer
	group  func(resource string) string

	mu      sync.Mutex
	live    map[holdfast.HoldID]liveSpan // of this process's holds
	pruneAt int
}

// liveSpan is the span of a live hold.
type liveSpan struct {
	hold *holdfast.Hold
	span trace.Span
}

func newSpans(tracer trace.Tracer, group func(string) string) *spans {
	return &spans{tracer: tracer, group: group, live: make(map[holdfast.HoldID]liveSpan), pruneAt: 1000}
}

// made is the value in the ctx that a Start function returns: the span that it made. The
// current span of the ctx may be the caller's, if a call was left out.
type made struct {
	span   trace.Span
	caller context.Context
	linked map[holdfast.HoldID]bool // holders with links from a wait
}

type madeKey[I any] struct{}

// start makes the span of an info of type I.
func start[I any](ctx, caller context.Context, s *spans, name string, at time.Time, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	_, span := s.tracer.Start(caller, name, append(opts, trace.WithTimestamp(at))...)
	m := &made{span: span, caller: caller, linked: make(map[holdfast.HoldID]bool)}
	return context.WithValue(trace.ContextWithSpan(ctx, span), madeKey[I]{}, m), span
}

// of returns the value that start made for an info of type I, or a span that records nothing.
func of[I any](ctx context.Context) *made {
	if m, ok := ctx.Value(madeKey[I]{}).(*made); ok {
		return m
	}
	return &made{span: trace.SpanFromContext(context.Background()), caller: ctx}
}

func (s *spans) trace() *holdfast.Trace {
	return &holdfast.Trace{
		AttemptStart: s.attemptStart,
		AttemptEnd:   s.attemptEnd,
		WaitStart:    s.waitStart,
		WaitEnd:      s.waitEnd,
		HoldStart:    s.holdStart,
		HoldEnd:      s.holdEnd,
		Renewed:      s.renewed,
		Released:     s.released,
	}
}

func (s *spans) attemptStart(ctx context.Context, i holdfast.AttemptInfo) context.Context {
	ctx, _ = start[holdfast.AttemptInfo](ctx, ctx, s, attemptSpan, i.Start, trace.WithSpanKind(trace.SpanKindClient),
		s.attributes(i.Resource, i.LockID, i.Mode, holdIDKey.String(i.HoldID.String())), system(i.Client))
	return ctx
}

func (s *spans) attemptEnd(ctx context.Context, i holdfast.AttemptInfo) {
	span := of[holdfast.AttemptInfo](ctx).span
	if i.Err == nil {
		span.SetAttributes(token(i.Token))
	}
	s.refusal(span, i.Err)
	s.link(of[holdfast.WaitInfo](ctx), i.Err)
	finish(span, i.Err, i.Start.Add(i.Took))
}

func (s *spans) waitStart(ctx context.Context, i holdfast.WaitInfo) context.Context {
	ctx, _ = start[holdfast.WaitInfo](ctx, ctx, s, waitSpan, i.Start, s.attributes(i.Resource, i.LockID, i.Mode))
	return ctx
}

func (s *spans) waitEnd(ctx context.Context, i holdfast.WaitInfo) {
	wait := of[holdfast.WaitInfo](ctx)
	s.refusal(wait.span, i.Err)
	s.link(wait, i.Err) // a wait behind another call may have no attempt
	finish(wait.span, i.Err, i.Start.Add(i.Took))
}

// holdStart makes the span of a hold, as a child of the caller's span and not of the wait's.
func (s *spans) holdStart(ctx context.Context, i holdfast.HoldInfo) context.Context {
	h, wait := i.Hold, of[holdfast.WaitInfo](ctx)
	opts := []trace.SpanStartOption{
		s.attributes(h.Resource(), h.LockID(), h.Mode(), holdIDKey.String(h.ID().String()), token(h.Token())),
	}
	if wait.span.SpanContext().IsValid() {
		opts = append(opts, trace.WithLinks(linkTo(wait.span, "wait")))
	}
	ctx, span := start[holdfast.HoldInfo](ctx, wait.caller, s, holdSpan, i.Start, opts...)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live[h.ID()] = liveSpan{h, span}
	if len(s.live) >= s.pruneAt { // calls of HoldEnd may have been left out
		for id, l := range s.live {
			if l.hold.Left() == 0 {
				delete(s.live, id)
			}
		}
		s.pruneAt = 2*len(s.live) + 1000
	}
	return ctx
}

func (s *spans) holdEnd(ctx context.Context, i holdfast.HoldInfo) {
	s.mu.Lock()
	delete(s.live, i.Hold.ID())
	s.mu.Unlock()
	span := of[holdfast.HoldInfo](ctx).span
	if cause := observe.Cause(i.Err); cause != "" {
		span.SetAttributes(causeKey.String(cause), errorKey.String("lost"))
		span.SetStatus(codes.Error, "the lock was lost")
	}
	span.End(trace.WithTimestamp(i.Start.Add(i.Took)))
}

// renewed adds failed renewals to the span of the hold. Others would be too many.
func (s *spans) renewed(ctx context.Context, i holdfast.CallInfo) {
	if i.Err != nil {
		of[holdfast.HoldInfo](ctx).span.AddEvent("holdfast.renewal.failed", trace.WithTimestamp(i.Start.Add(i.Took)),
			trace.WithAttributes(outcomeKey.String(observe.Outcome(i.Err))))
	}
}

// released makes the span of a release, as a child of the hold's span, which has ended.
func (s *spans) released(ctx context.Context, i holdfast.CallInfo) {
	h := i.Hold
	_, span := s.tracer.Start(ctx, releaseSpan, trace.WithTimestamp(i.Start), trace.WithSpanKind(trace.SpanKindClient),
		s.attributes(h.Resource(), h.LockID(), h.Mode(), holdIDKey.String(h.ID().String())), system(h.Client()))
	if observe.Confirmed(i.Err) != "true" {
		span.SetAttributes(errorKey.String(errorType(i.Err)))
		span.SetStatus(codes.Error, "the store did not confirm the release")
	}
	span.End(trace.WithTimestamp(i.Start.Add(i.Took)))
}

func (s *spans) attributes(resource, lockID string, mode holdfast.Mode, more ...attribute.KeyValue) trace.SpanStartEventOption {
	all := slices.Concat(more, []attribute.KeyValue{lockIDKey.String(lockID), modeKey.String(mode.String())})
	if s.group != nil {
		all = append(all, groupKey.String(strings.ToValidUTF8(s.group(resource), "?")))
	}
	return trace.WithAttributes(all...)
}

// refusal sets the attributes of a refusal's holders and waiters.
func (s *spans) refusal(span trace.Span, err error) {
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !span.IsRecording() {
		return
	}
	var ids []string
	for _, h := range held.Holders[:min(len(held.Holders), mostHolders)] {
		ids = append(ids, h.HoldID.String())
	}
	span.SetAttributes(holdersKey.StringSlice(ids))
	if held.Position != driver.NoPlace {
		span.SetAttributes(positionKey.Int(held.Position))
	}
}

// mostHolders is the largest number of holders of a shared lock in a span.
const mostHolders = 16

// link links the span of a wait with the spans of the holders in a refusal, in both
// directions, if the holders are in this process.
func (s *spans) link(wait *made, err error) {
	var held *holdfast.HeldError
	if !errors.As(err, &held) || !wait.span.SpanContext().IsValid() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range held.Holders[:min(len(held.Holders), mostHolders)] {
		if holder, ok := s.live[h.HoldID]; ok && !wait.linked[h.HoldID] {
			wait.linked[h.HoldID] = true
			wait.span.AddLink(linkTo(holder.span, "holder"))
			holder.span.AddLink(linkTo(wait.span, "waiter"))
		}
	}
}

func linkTo(span trace.Span, relation string) trace.Link {
	return trace.Link{SpanContext: span.SpanContext(), Attributes: []attribute.KeyValue{relationKey.String(relation)}}
}

// finish ends the span of an attempt or a wait. A refusal is no error of the span, and
// neither is Close, after which the span has no outcome.
func finish(span trace.Span, err error, at time.Time) {
	outcome := observe.Outcome(err)
	if outcome != "" {
		span.SetAttributes(outcomeKey.String(outcome))
	}
	if outcome == observe.Unknown || outcome == observe.Lost {
		// The text of an error may contain the name of the resource. The Client logs it.
		span.SetAttributes(errorKey.String(errorType(err)))
		span.SetStatus(codes.Error, "not granted: "+outcome)
	}
	span.End(trace.WithTimestamp(at))
}

// errorType returns the class of an error, by the semantic conventions.
func errorType(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	}
	return "_OTHER"
}

func token(n uint64) attribute.KeyValue { return tokenKey.Int64(int64(n)) } // below 2^53

// system returns the kind of the store, by the semantic conventions.
func system(c *holdfast.Client) trace.SpanStartEventOption {
	switch name := c.Traits().Name; name {
	case "memory":
		return trace.WithAttributes()
	case "postgres":
		return trace.WithAttributes(systemKey.String("postgresql"))
	default:
		return trace.WithAttributes(systemKey.String(name))
	}
}
