package words

import (
	"strconv"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/deadlock"
)

// A path of 10,000 is no sentence.
func TestLongDeadlock(t *testing.T) {
	var path []deadlock.Link
	for i := range 10_000 {
		path = append(path, deadlock.Link{Holds: driver.Status{Resource: strconv.Itoa(i)}, WaitsFor: strconv.Itoa((i + 1) % 10_000)})
	}
	says := Deadlock(path, Holder)
	if !strings.HasSuffix(says, " … and 9990 more, the last of whom waits for the first.") || len(says) > 1000 {
		t.Error(says)
	}
	if says := Deadlock(path[:10], Holder); strings.Contains(says, "more") {
		t.Error(says)
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "",
		"plain":              "plain",
		`a "b" \n 'c'`:       `a "b" \n 'c'`,
		"ünïcode 🔒 日本":       "ünïcode 🔒 日本",
		"wide\u3000space":    "wide\u3000space",
		"line\nline\tcell\r": `line\nline\tcell\r`,
		"\x1b[31mred\x7f":    `\x1b[31mred\x7f`,
		"csi \u009b31m":      `csi \u009b31m`,
		"\u202eturned":       `\u202eturned`,
		"bad \xff\xfe utf-8": `bad \xff\xfe utf-8`,
		"said \ufffd itself": "said \ufffd itself",
		"\v\f\a\b\x00":       `\v\f\a\b\x00`,
	} {
		if got := Printable(text); got != want {
			t.Errorf("printable(%q) = %s, want %s", text, got, want)
		}
	}
}
