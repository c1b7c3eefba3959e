// Package quote quotes in errors what a caller gave, and keeps it short if it is wrong:
// it may be of any length then.
package quote

import (
	"strconv"
	"unicode/utf8"
)

// most is how many bytes of a text Short quotes.
const most = 64

// maxName is driver.MaxName, whose package imports this one.
const maxName = 1024

// Short quotes the text as %q does, but only its first 64 bytes, in whole characters. A
// "…" after the quotes says that there was more.
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

// Name quotes a name, in full unless it is too long to be one.
func Name(s string) string {
	if len(s) <= maxName {
		return strconv.Quote(s)
	}
	return Short(s)
}
