package output

import (
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

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

func TestLeft(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                        "0s",
		99 * time.Millisecond:    "0s",
		9999 * time.Millisecond:  "9.9s",
		29999 * time.Millisecond: "29s",
		90 * time.Minute:         "1h30m0s",
		holdfast.Forever:         "forever",
		driver.Unknown:           "?",
	} {
		if got := Left(d); got != want {
			t.Errorf("left(%v) = %s, want %s", d, got, want)
		}
	}
}
