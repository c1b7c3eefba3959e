package main

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// flag is how a command line to copy names the store: not at all if it is the one
// that is meant anyway, or if its URL has parts that may be secret.
func (l location) flag() string {
	named := l.url
	if l.file != "" {
		file, err := filepath.Abs(l.file)
		if err != nil {
			return ""
		}
		named = (&url.URL{Scheme: "sqlite", Path: filepath.ToSlash(file)}).String()
	}
	if l.unasked || l.file == "" && l.name() != l.url {
		return ""
	}
	return " --store " + shellQuoted(named)
}

// argument is a word as an argument in a command line to copy, after all flags.
func argument(word string) string {
	if strings.HasPrefix(word, "-") {
		return "-- " + shellQuoted(word)
	}
	return shellQuoted(word)
}

// shellQuoted writes a word for a shell. What cannot be seen is written in the
// $'...' of bash, zsh and POSIX of 2024.
func shellQuoted(word string) string {
	switch {
	case printable(word) != word:
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
