// Package output prints: lines on stderr, tables for people, and JSON for
// programs. What it prints is safe to show on a terminal.
package output

import (
	"bytes"
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
	"github.com/holdfast-go/holdfast/server/words"
)

// Reason returns the text of an error in one line, without the prefix that Say adds, without that
// of driver.ErrInvalid, and without the full stop that servers put behind theirs.
func Reason(err error) string {
	lines := strings.Split(strings.TrimPrefix(strings.TrimPrefix(err.Error(), "holdfast: "), "invalid: "), "\n")
	return strings.TrimSuffix(strings.Join(slices.Compact(lines), "; "), ".")
}

// logsJSON: the lines are JSON objects, not text.
var logsJSON atomic.Bool

// LogJSON makes every line on stderr a JSON object from now on.
func LogJSON() { logsJSON.Store(true) }

// LogsJSON reports whether the lines are JSON objects.
func LogsJSON() bool { return logsJSON.Load() }

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
	line := lineOf(event, attrs, fmt.Sprintf(format, args...))
	stderr.do(func() { write(line) })
}

// Record prints an event in JSON alone.
func Record(event string, attrs []slog.Attr, format string, args ...any) {
	if LogsJSON() {
		SayEvent(event, attrs, format, args...)
	}
}

// lineOf returns the line of an event that happens now.
func lineOf(event string, attrs []slog.Attr, text string) []byte {
	if !LogsJSON() {
		return fmt.Appendf(nil, "holdfast: %s\n", words.Printable(secret.Redact(text)))
	}
	var line bytes.Buffer
	record(newJournal(&line), event, attrs, text)
	return line.Bytes()
}

func record(to *slog.Logger, event string, attrs []slog.Attr, text string) {
	attrs = append([]slog.Attr{slog.String("event", event)}, attrs...)
	to.LogAttrs(context.Background(), slog.LevelInfo, text, attrs...)
}

// write writes to stderr. An error has nobody who could be told.
func write(line []byte) { terminal.Quietly(func() { _, _ = os.Stderr.Write(line) }) }
