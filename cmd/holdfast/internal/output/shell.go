package output

import (
	"fmt"
	"regexp"
	"strings"
)

// Argument is a word as an argument in a command line to copy, after all flags.
func Argument(word string) string {
	if strings.HasPrefix(word, "-") {
		return "-- " + ShellQuoted(word)
	}
	return ShellQuoted(word)
}

// ShellQuoted writes a word for a shell. What cannot be seen is written in the
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
	case plainWord.MatchString(word):
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// plainWord means to every shell what it says.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`)
