package serve

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// logger returns a logger whose lines are said on stderr as all others of the command. hide
// takes secrets out of a text.
func logger(hide func(string) string) *slog.Logger { return slog.New(sayer{hide: hide}) }

// sayer is a slog.Handler. In JSON each line is an event "log" with its level and attributes;
// as text the attributes follow in brackets.
type sayer struct {
	hide  func(string) string
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (sayer) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (s sayer) Handle(_ context.Context, r slog.Record) error {
	text, attrs := s.line(r)
	if !output.LogsJSON() {
		var more []string
		for _, a := range attrs[1:] {
			more = append(more, a.String())
		}
		if len(more) > 0 {
			text += " (" + strings.Join(more, ", ") + ")"
		}
	}
	output.SayEvent("log", attrs, "%s", text)
	return nil
}

// line returns the text and the attributes of a record, the level first, without secrets.
func (s sayer) line(r slog.Record) (string, []slog.Attr) {
	attrs := append([]slog.Attr{slog.String("level", r.Level.String())}, s.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	for i, a := range attrs {
		if _, ok := a.Value.Any().(error); ok || a.Value.Kind() == slog.KindString {
			attrs[i] = slog.String(a.Key, s.hide(a.Value.String()))
		}
	}
	return s.hide(strings.TrimPrefix(r.Message, "holdfast server: ")), attrs
}

// WithAttrs implements slog.Handler.
func (s sayer) WithAttrs(attrs []slog.Attr) slog.Handler {
	return sayer{s.hide, append(slices.Clip(s.attrs), attrs...)}
}

// WithGroup implements slog.Handler. There are too few attributes for groups.
func (s sayer) WithGroup(string) slog.Handler { return s }
