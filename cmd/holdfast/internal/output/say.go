// Package output prints: lines on stderr, tables for people, and JSON for
// programs. What it prints is safe to show on a terminal.
package output

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Reason returns the text of an error in one line, without the prefix that Say adds,
// and without the full stop that servers put behind theirs.
func Reason(err error) string {
	lines := strings.Split(strings.TrimPrefix(err.Error(), "holdfast: "), "\n")
	return strings.TrimSuffix(strings.Join(slices.Compact(lines), "; "), ".")
}

// journal is where lines go as JSON objects; nil: they are text.
var journal atomic.Pointer[slog.Logger]

// LogJSON makes every line on stderr a JSON object from now on.
func LogJSON() { journal.Store(newJournal(os.Stderr)) }

// LogsJSON reports whether the lines are JSON objects.
func LogsJSON() bool { return journal.Load() != nil }

// newJournal returns a logger of objects with time, event and msg.
func newJournal(to io.Writer) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch {
			case a.Key == slog.LevelKey:
				return slog.Attr{}
			case a.Value.Kind() == slog.KindString:
				a.Value = slog.StringValue(secret.Redact(a.Value.String()))
			}
			return a
		},
	}))
}

// Say prints one line of holdfast's own on stderr.
//
//go:noinline
func Say(format string, args ...any) { SayEvent("note", nil, format, args...) }

// SayEvent is Say for an event that programs may want to know. Its name and the
// attributes are in JSON alone. Scripts read them: one may be added, none changed.
func SayEvent(event string, attrs []slog.Attr, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if to := journal.Load(); to != nil {
		record(to, event, attrs, text)
		return
	}
	line := Printable(secret.Redact(text))
	terminal.Quietly(func() { fmt.Fprintf(os.Stderr, "holdfast: %s\n", line) })
}

// Record prints an event in JSON alone.
func Record(event string, attrs []slog.Attr, format string, args ...any) {
	if to := journal.Load(); to != nil {
		record(to, event, attrs, fmt.Sprintf(format, args...))
	}
}

func record(to *slog.Logger, event string, attrs []slog.Attr, text string) {
	attrs = append([]slog.Attr{slog.String("event", event)}, attrs...)
	terminal.Quietly(func() { to.LogAttrs(context.Background(), slog.LevelInfo, text, attrs...) })
}
