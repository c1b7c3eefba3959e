package access

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast/driver"
)

func TestPattern(t *testing.T) {
	const composed, decomposed = "caf\u00e9", "cafe\u0301"
	for _, c := range []struct {
		pattern, resource string
		want              bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a", "ab", false},
		{"a", "", false},
		{"a ", "a", false},
		{"a", "a\x00", false},
		{"a", "a\n", false},
		{"*", "a", true},
		{"*", "../\n*", true},
		{"a/*", "a/b", true},
		{"a/*", "a/", true},
		{"a/*", "a", false},
		{"a/*", "A/b", false},
		{"a/*", "b/a/b", false},
		{"a/*", "a/../b", true}, // bytes, no path
		{"a/*", "a//b", true},
		{"a/*", "a%2Fb", false},
		{"a/*", "./a/b", false},
		{"a/*", "a\\b", false},
		{"a.c", "abc", false},
		{"a?", "ab", false},
		{"[a]", "a", false},
		{composed, composed, true},
		{composed, decomposed, false},
		{composed + "*", decomposed + "x", false},
		{"ſ", "s", false}, // folds to s
		{"\u212a*", "k1", false},
	} {
		p, err := parsePattern(c.pattern)
		if err != nil {
			t.Errorf("%q: %v", c.pattern, err)
			continue
		}
		if got := p.matches(c.resource); got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.resource, got, c.want)
		}
	}
}

func TestPatternRefused(t *testing.T) {
	for _, s := range []string{"", "a*b", "**", "*a", "a**", "a\x00", "a\x00*", "\xff", "\xff*", strings.Repeat("a", 1025), strings.Repeat("a", 1025) + "*"} {
		if _, err := parsePattern(s); err == nil {
			t.Errorf("pattern %.20q is accepted", s)
		}
	}
}

// A pattern matches its text, and what it matches begins with it byte by byte.
func FuzzPattern(f *testing.F) {
	f.Add("a/*", "a/b")
	f.Add("*", "x")
	f.Add("a*b", "axb")
	f.Add("\xff*", "\xffa")
	f.Fuzz(func(t *testing.T, text, resource string) {
		p, err := parsePattern(text)
		if err != nil {
			return
		}
		prefix, open := strings.CutSuffix(text, "*")
		if !utf8.ValidString(text) || strings.Contains(prefix, "*") {
			t.Errorf("pattern %q is accepted", text)
		}
		if prefix != "" && (!p.matches(prefix) || driver.ValidResource(prefix) != nil) {
			t.Errorf("pattern %q does not match %q, or that is no resource", text, prefix)
		}
		if want := resource == text || open && len(resource) >= len(prefix) && resource[:len(prefix)] == prefix; p.matches(resource) != (want && (open || resource == text)) {
			t.Errorf("pattern %q matches %q: %v", text, resource, p.matches(resource))
		}
		if p.matchesAll() != (text == "*") {
			t.Errorf("pattern %q matches all", text)
		}
	})
}
