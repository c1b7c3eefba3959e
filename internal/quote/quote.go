// Package quote quotes a caller's text in errors, and shortens an invalid text, which may
// have any length.
package quote

import (
	"strconv"
	"unicode/utf8"
)

// most is the largest number of bytes that Short quotes.
const most = 64

// maxName is driver.MaxName. Package driver imports this package.
const maxName = 1024

// Short quotes the text like %q, but only its first 64 bytes, in whole characters. A "…"
// after the quotes stands for the rest.
func Short(s string) string {
	if len(s) <= most {
		return strconv.Quote(s)
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return strconv.Quote(s[:end]) + "…"
}

// Name quotes a name, in full unless it is too long to be valid.
func Name(s string) string {
	if len(s) <= maxName {
		return strconv.Quote(s)
	}
	return Short(s)
}
