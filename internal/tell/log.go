package tell

import (
	"context"
	"log/slog"
)

// Logger returns a logger that passes its records on to l by the queue, so that a blocking
// handler delays nothing. Handler.Enabled is user code too, so it is called later.
func (q *Queue) Logger(l *slog.Logger) *slog.Logger {
	return slog.New(&handler{inner: l.Handler(), queue: q})
}

// handler is a slog.Handler that returns at once.
type handler struct {
	inner slog.Handler
	queue *Queue
}

// Enabled returns true: the inner handler decides later, and may block.
func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle queues the record. It never fails.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	ctx = context.WithoutCancel(ctx)
	h.queue.Add(func() {
		if h.inner.Enabled(ctx, r.Level) {
			_ = h.inner.Handle(ctx, r) // there is no caller to return the error to
		}
	})
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.inner.WithAttrs(attrs), h.queue}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.inner.WithGroup(name), h.queue}
}
