package wake

import (
	"context"
	"log/slog"

	"github.com/holdfast-go/holdfast/internal/calls"
)

// mostLines is the largest number of lines that wait for a slow handler.
const mostLines = 100

// newLog returns a logger that passes lines on to l, in order, from a goroutine of its
// own: a handler that blocks delays no signal. Lines are dropped while too many wait.
func newLog(l *slog.Logger) *slog.Logger {
	if l == nil {
		l = slog.Default()
	}
	return slog.New(&handler{inner: l.Handler(), lines: &calls.Queue{Most: mostLines}})
}

// handler is a slog.Handler that returns at once.
type handler struct {
	inner slog.Handler
	lines *calls.Queue
}

// Enabled returns true: the answer is inner's, which may block.
func (h *handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle never fails.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	r = r.Clone()
	ctx = context.WithoutCancel(ctx)
	h.lines.Add(func() {
		if h.inner.Enabled(ctx, r.Level) {
			_ = h.inner.Handle(ctx, r)
		}
	})
	return nil
}

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &handler{h.inner.WithAttrs(attrs), h.lines}
}

func (h *handler) WithGroup(name string) slog.Handler {
	return &handler{h.inner.WithGroup(name), h.lines}
}
