package observe_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric/noop"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/drivertest"
	"github.com/holdfast-go/holdfast/lab/observe/scenario"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/otelholdfast"
)

// recorder collects ended spans.
type recorder struct {
	*tracetest.SpanRecorder
	tracer trace.Tracer
	trace  *holdfast.Trace
	began  time.Time
}

func newRecorder(t *testing.T, group func(string) string) *recorder {
	t.Helper()
	r := &recorder{SpanRecorder: tracetest.NewSpanRecorder(), began: time.Now()}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(r))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	r.tracer = provider.Tracer("test")
	var err error
	r.trace, err = otelholdfast.New(&otelholdfast.Options{TracerProvider: provider, MeterProvider: noop.NewMeterProvider(), Group: group})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *recorder) client(t *testing.T, store driver.Store) *holdfast.Client {
	c := holdfast.New(store, &holdfast.Options{NoSweep: true, Trace: r.trace})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// in runs do in a span of the caller.
func (r *recorder) in(t *testing.T, name string, do func(ctx context.Context)) {
	ctx, span := r.tracer.Start(t.Context(), name)
	defer span.End()
	do(ctx)
}

// lines describes the spans of Holdfast in the order of their start, then by name: their times,
// parents and links.
func (r *recorder) lines() []string {
	names := make(map[trace.SpanID]string)
	spans := r.Ended()
	for _, s := range spans {
		names[s.SpanContext().SpanID()] = s.Name()
	}
	slices.SortStableFunc(spans, func(a, b sdktrace.ReadOnlySpan) int {
		return cmp.Or(a.StartTime().Compare(b.StartTime()), cmp.Compare(a.Name(), b.Name()), cmp.Compare(names[a.Parent().SpanID()], names[b.Parent().SpanID()]))
	})
	var lines []string
	for _, s := range spans {
		if !strings.HasPrefix(s.Name(), "holdfast.") {
			continue
		}
		line := fmt.Sprintf("%s %v-%v in %s", s.Name(), s.StartTime().Sub(r.began), s.EndTime().Sub(r.began), names[s.Parent().SpanID()])
		for _, l := range s.Links() {
			line += fmt.Sprintf(", %s %s", l.Attributes[0].Value.AsString(), names[l.SpanContext.SpanID()])
		}
		if s.Status().Code == codes.Error {
			line += ": " + s.Status().Description
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *recorder) check(t *testing.T, want ...string) {
	t.Helper()
	synctest.Wait()
	if got := r.lines(); !slices.Equal(got, want) {
		t.Errorf("spans:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (r *recorder) last(t *testing.T, name string) sdktrace.ReadOnlySpan {
	t.Helper()
	for _, s := range slices.Backward(r.Ended()) {
		if s.Name() == name {
			return s
		}
	}
	t.Fatalf("there is no span %s", name)
	return nil
}

func attributes(kvs []attribute.KeyValue) map[string]string {
	all := make(map[string]string)
	for _, kv := range kvs {
		all[string(kv.Key)] = kv.Value.String()
	}
	return all
}

// delayed returns a store whose answers take some time.
func delayed(t *testing.T, store driver.Store, d time.Duration) driver.Store {
	f := drivertest.NewFaultStore(store, func(drivertest.Call) drivertest.Fault {
		answer := make(chan struct{})
		time.AfterFunc(d, func() { close(answer) })
		return drivertest.Fault{HoldReply: answer}
	})
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestSpansOfLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		c := r.client(t, delayed(t, memlock.New(nil), 10*time.Millisecond))
		var h *holdfast.Hold
		r.in(t, "request", func(ctx context.Context) {
			var err error
			if h, err = c.Lock(ctx, "r", &holdfast.LockOptions{LockID: "mine"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := h.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
		})
		r.check(t,
			"holdfast.attempt 0s-10ms in request",
			"holdfast.hold 10ms-1.01s in request",
			"holdfast.release 1.01s-1.02s in holdfast.hold",
		)
		token := fmt.Sprint(h.Token())
		for name, want := range map[string]map[string]string{
			"holdfast.attempt": {"holdfast.outcome": "granted", "holdfast.token": token},
			"holdfast.hold":    {"holdfast.token": token},
			"holdfast.release": {},
		} {
			want["holdfast.lock.id"], want["holdfast.mode"], want["holdfast.hold.id"] = "mine", "exclusive", h.ID().String()
			if got := attributes(r.last(t, name).Attributes()); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s has %v, want %v", name, got, want)
			}
		}
		if r.last(t, "holdfast.attempt").SpanKind() != trace.SpanKindClient || r.last(t, "holdfast.hold").SpanKind() != trace.SpanKindInternal {
			t.Error("the spans are of the wrong kind")
		}
	})
}

// The spans of two contending Clients of one process have links in both directions.
func TestSpansOfWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		store := memlock.New(nil)
		c, d := r.client(t, store), r.client(t, store)
		done := make(chan struct{})
		r.in(t, "first", func(ctx context.Context) {
			h, err := d.Lock(ctx, "r", nil)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // until the span exists: each Client reports from a goroutine of its own
			go r.in(t, "second", func(ctx context.Context) {
				defer close(done)
				h, err := c.Lock(ctx, "r", nil)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Second)
				_ = h.Unlock(ctx)
			})
			time.Sleep(time.Second / 2)
			if err := h.Unlock(ctx); err != nil {
				t.Fatal(err)
			}
		})
		<-done
		r.check(t,
			"holdfast.attempt 0s-0s in first",
			"holdfast.attempt 0s-0s in holdfast.wait",
			"holdfast.attempt 0s-0s in second",
			"holdfast.hold 0s-500ms in first, waiter holdfast.wait",
			"holdfast.wait 0s-500ms in second, holder holdfast.hold",
			"holdfast.attempt 500ms-500ms in holdfast.wait",
			"holdfast.hold 500ms-1.5s in second, wait holdfast.wait",
			"holdfast.release 500ms-500ms in holdfast.hold",
			"holdfast.release 1.5s-1.5s in holdfast.hold",
		)
	})
}

// A refusal is not an error. Its span names the holder.
func TestSpansOfRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecorder(t, nil)
		c := r.client(t, memlock.New(nil))
		h, err := c.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.in(t, "request", func(ctx context.Context) {
			if _, err := c.TryRLock(ctx, "r", nil); !errors.Is(err, holdfast.ErrHeld) {
				t.Fatal(err)
			}
		})
		r.check(t, "holdfast.attempt 0s-0s in ", "holdfast.attempt 0s-0s in request")
		got := attributes(r.last(t, "holdfast.attempt").Attributes())
		if got["holdfast.outcome"] != "held" || got["holdfast.mode"] != "shared" || got["holdfast.holders"] != `["`+h.ID().String()+`"]` {
			t.Errorf("got %v", got)
		}
	})
}

// A wait that Close ends is not an error.
func TestSpansOfClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, store := newRecorder(t, nil), memlock.New(nil)
		c, d := r.client(t, store), holdfast.New(store, nil)
		defer d.Close()
		if _, err := d.Lock(t.Context(), "r", nil); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = c.Lock(t.Context(), "r", nil) }()
		synctest.Wait()
		_ = c.Close()
		r.check(t, "holdfast.attempt 0s-0s in ", "holdfast.attempt 0s-0s in holdfast.wait", "holdfast.wait 0s-0s in ")
		if got, ok := attributes(r.last(t, "holdfast.wait").Attributes())["holdfast.outcome"]; ok {
			t.Errorf("outcome %s", got)
		}
	})
}

// The span of a lost hold has the cause, and its failed renewals. It ends when the hold's ctx
// ends, even if nobody reads that.
func TestSpansOfLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var outage atomic.Bool
		f := drivertest.NewFaultStore(memlock.New(nil), func(drivertest.Call) drivertest.Fault {
			return drivertest.Fault{LoseRequest: outage.Load()}
		})
		defer f.Close()
		r := newRecorder(t, nil)
		c := r.client(t, f)
		h, err := c.Lock(t.Context(), "r", nil)
		if err != nil {
			t.Fatal(err)
		}
		outage.Store(true)
		if _, err := c.TryLock(t.Context(), "s", nil); !errors.Is(err, drivertest.ErrFault) {
			t.Fatal(err)
		}
		if s := r.last(t, "holdfast.attempt"); s.Status().Code != codes.Error || attributes(s.Attributes())["holdfast.outcome"] != "unknown" {
			t.Errorf("an attempt without an answer: %v %v", s.Status(), s.Attributes())
		}
		<-h.Context().Done()
		synctest.Wait()
		s := r.last(t, "holdfast.hold")
		if got := s.EndTime().Sub(s.StartTime()); got != 28125*time.Millisecond {
			t.Errorf("the span lasts %v", got)
		}
		if got := attributes(s.Attributes()); s.Status().Code != codes.Error || got["holdfast.cause"] != "unreachable" {
			t.Errorf("status %v, attributes %v", s.Status(), got)
		}
		events := s.Events()
		if len(events) < 3 || events[0].Name != "holdfast.renewal.failed" || attributes(events[0].Attributes)["holdfast.outcome"] != "unknown" {
			t.Errorf("events %v", events)
		}
	})
}

// No span, event, link or metric contains the name of a resource unless Group returns it.
func TestNoNames(t *testing.T) {
	for name, group := range map[string]func(string) string{"none": nil, "grouped": func(r string) string { return "group of " + r }} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(t, group)
			scenario.Run(t, scenario.SQLite(t), r.trace, func() {})
			found := false
			for _, s := range r.Ended() {
				text := fmt.Sprint(s.Name(), s.Attributes(), s.Events(), s.Links(), s.Status())
				for _, resource := range []string{"jobs/", "expired}", "cut", "silent"} {
					found = found || strings.Contains(text, "group of "+resource)
					if text := strings.ReplaceAll(text, "group of ", "group of-"); group == nil && strings.Contains(text, resource) {
						t.Errorf("%q is in %s", resource, text)
					}
				}
				if s.Name() == "holdfast.attempt" && attributes(s.Attributes())["db.system.name"] != "sqlite" {
					t.Errorf("the attributes are %v", s.Attributes())
				}
			}
			if found != (group != nil) {
				t.Errorf("found groups: %v", found)
			}
		})
	}
}

// On a real store, in real time, every span ends.
func TestSpansEnd(t *testing.T) {
	r := newRecorder(t, nil)
	scenario.Run(t, scenario.SQLite(t), r.trace, func() {})
	ended := make(map[trace.SpanID]bool)
	for _, s := range r.Ended() {
		ended[s.SpanContext().SpanID()] = true
		if s.EndTime().Before(s.StartTime()) {
			t.Errorf("%s ends before it begins", s.Name())
		}
	}
	for _, s := range r.Started() {
		if !ended[s.SpanContext().SpanID()] {
			t.Errorf("%s has not ended", s.Name())
		}
	}
}

// When Close has returned, the provider has all spans.
func TestSpansOfAClose(t *testing.T) {
	r := newRecorder(t, nil)
	c := r.client(t, memlock.New(nil))
	if _, err := c.Lock(t.Context(), "r", nil); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range r.Ended() {
		names = append(names, s.Name())
	}
	slices.Sort(names)
	if want := []string{"holdfast.attempt", "holdfast.hold", "holdfast.release"}; !slices.Equal(names, want) {
		t.Errorf("the spans are %q, want %q", names, want)
	}
}
