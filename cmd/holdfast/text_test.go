package main

import (
	"strings"
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
		if got := printable(text); got != want {
			t.Errorf("printable(%q) = %s, want %s", text, got, want)
		}
	}
}

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"open redis://:secret@host/0 failed":       "open redis://***@host/0 failed",
		"redis://user:secret@host/0":               "redis://***@host/0",
		"postgres://u:sec@ret/secret@host":         "postgres://***@host",
		`got "etcd+tls://u:secret@a,b"`:            `got "etcd+tls://***@a,b"`,
		"sqlite:///var/lib/a.db and mail a@host":   "sqlite:///var/lib/a.db and mail a@host",
		"redis://host/0, redis://u:secret@other/0": "redis://host/0, redis://***@other/0",
		`got "redis://u:my secret@host/0" of a@b`:  `got "redis://***@host/0" of a@b`,
		`got "redis://u:\"secret@h", twice`:        `got "redis://***@h", twice`,
		"postgres://h/d?user=u&sslPassword=secret": "postgres://h/d?user=u&sslPassword=***",
		`got "https://h/?api_key=secret&x=y"`:      `got "https://h/?api_key=***&x=y"`,
	} {
		if got := redact(text); got != want {
			t.Errorf("redact(%q) = %s, want %s", text, got, want)
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
		if got := left(d); got != want {
			t.Errorf("left(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestTableEndsNoLineInSpaces(t *testing.T) {
	var b strings.Builder
	if err := writeTable(&b, [][]string{{"A", "B", "C"}, {"long cell", "x\ty", ""}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "A          B     C\nlong cell  x\\ty\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
