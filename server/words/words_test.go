package words

import "testing"

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
