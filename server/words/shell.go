package words

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// Argument returns the word as an argument after the flags of a command line.
func Argument(word string) string {
	if strings.HasPrefix(word, "-") {
		return "-- " + ShellQuoted(word)
	}
	return ShellQuoted(word)
}

// ShellQuoted quotes a word for a shell. A word that is not printable becomes the
// $'...' of bash, zsh and POSIX of 2024.
func ShellQuoted(word string) string {
	switch {
	case Printable(word) != word:
		var b strings.Builder
		for _, char := range []byte(word) {
			if char < ' ' || char > '~' || char == '\'' || char == '\\' {
				fmt.Fprintf(&b, `\x%02x`, char)
			} else {
				b.WriteByte(char)
			}
		}
		return "$'" + b.String() + "'"
	case plainWord().MatchString(word):
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plainWord matches words that no shell changes.
var plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`) })
