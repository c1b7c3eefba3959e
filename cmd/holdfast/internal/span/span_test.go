package span_test

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/span"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5": 5 * time.Second, "0": 0, "0.5": 500 * time.Millisecond, ".25": 250 * time.Millisecond, "-1": -time.Second, "+2": 2 * time.Second,
		"500ms": 500 * time.Millisecond, "1h30m": 90 * time.Minute, "9223372036": 9223372036 * time.Second,
	} {
		if got, err := span.Parse(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " 5", "5 ", "5 s", "five", "1e3", "0x10", "Inf", "nan", "1_000", "5d", "--5", "-", ".", "9223372037", "-9223372037", "99999999999999999999", "9223372036.9",
	} {
		if got, err := span.Parse(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// Who writes days learns what there is.
func TestDays(t *testing.T) {
	for _, text := range []string{"3d", "0.5d", "1w"} {
		if _, err := span.Parse(text); err == nil || err.Error() != "the longest unit is the hour: three days are 72h" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Whatever is read as a duration is one that Go writes, or a number of seconds.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"5", "1.5", "30s", "1e9", "-0", "00", "9223372036.854775807"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := span.Parse(text)
		if err != nil {
			return
		}
		if d, err := time.ParseDuration(text); err == nil && d == got {
			return
		}
		if d, err := time.ParseDuration(text + "s"); err != nil || d != got {
			t.Errorf("%q is %v, want %v, %v", text, got, d, err)
		}
	})
}
