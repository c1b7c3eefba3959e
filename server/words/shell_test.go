package words

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
		if got := ShellQuoted(word); got != want {
			t.Errorf("%q is written %s, want %s", word, got, want)
		}
		bash, err := exec.LookPath("bash")
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+ShellQuoted(word)).Output()
		if err != nil || string(out) != word {
			t.Errorf("%q is to bash %q, %v", word, out, err)
		}
	}
}
