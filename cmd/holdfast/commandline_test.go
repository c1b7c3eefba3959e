package main

import (
	"os/exec"
	"testing"
)

func TestShellQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"plain/word-1.0": "plain/word-1.0",
		"":               "''",
		"two words":      "'two words'",
		"it's $HOME":     `'it'\''s $HOME'`,
		"ünï 🔒":          "'ünï 🔒'",
		"a\x1b[1mé'\\":   `$'a\x1b[1m\xc3\xa9\x27\x5c'`,
	} {
		if got := shellQuoted(word); got != want {
			t.Errorf("%q is written %s, want %s", word, got, want)
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+shellQuoted(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is to bash %q, %v", word, out, err)
		}
	}
}

func TestFlagToCopy(t *testing.T) {
	for want, l := range map[string]location{
		"":                                 {url: "sqlite:///a.db", file: "/a.db", unasked: true},
		" --store sqlite:///a.db":          {url: "sqlite:///a.db?synchronous=full", file: "/a.db"},
		" --store sqlite:///it%27s%20a.db": {file: "/it's a.db"},
		" --store redis://host/0":          {url: "redis://host/0"},
	} {
		if got := l.flag(); got != want {
			t.Errorf("%+v: %q, want %q", l, got, want)
		}
	}
	for _, url := range []string{"redis://user:secret@host/0", "postgres://host/db?password=secret"} {
		if got := (location{url: url}).flag(); got != "" {
			t.Errorf("%s: %q", url, got)
		}
	}
}
