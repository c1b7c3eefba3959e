package serve

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
)

// No secret of the store is in a line.
func TestLoggerHidesSecrets(t *testing.T) {
	hide := func(text string) string { return strings.ReplaceAll(text, "hunter2", "***") }
	r := slog.Record{Message: "holdfast server: it failed with hunter2", Level: slog.LevelError}
	r.AddAttrs(slog.Any("error", errors.New("wrong password hunter2")), slog.String("text", "hunter2"), slog.Int("n", 3))
	s, ok := slog.New(sayer{hide: hide}).With("of", "hunter2").Handler().(sayer)
	if !ok || s.Enabled(context.Background(), slog.LevelDebug) || !s.Enabled(context.Background(), slog.LevelInfo) {
		t.Fatalf("%+v", s)
	}
	text, attrs := s.line(r)
	if text != "it failed with ***" || len(attrs) != 5 {
		t.Errorf("%q, %v", text, attrs)
	}
	for _, a := range attrs {
		if strings.Contains(a.String(), "hunter2") {
			t.Errorf("%s", a)
		}
	}
}
