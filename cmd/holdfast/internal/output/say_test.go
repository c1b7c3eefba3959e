package output

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
)

// A line of the journal has its event first, no level, and no secret in any of its texts.
func TestJournal(t *testing.T) {
	var out bytes.Buffer
	record(newJournal(&out), "lost", []slog.Attr{slog.String("store", "redis://app:hunter2@db/0"), slog.Int("status", 3)}, "of redis://app:hunter2@db/0\n\x1b[2J")
	if bytes.Contains(out.Bytes(), []byte("hunter2")) {
		t.Errorf("it shows the password: %s", &out)
	}
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 1 {
		t.Errorf("it has %d lines: %s", n, &out)
	}
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got["event"] != "lost" || got["status"] != 3.0 || got["time"] == nil || got["msg"] == nil || len(got) != 5 {
		t.Errorf("got %v", got)
	}
}
