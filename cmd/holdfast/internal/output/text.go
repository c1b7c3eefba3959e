package output

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// Printable makes a text fit for one line of a terminal. What is not visible, such
// as control characters, escape sequences and marks that turn the direction of
// writing, becomes the escape that Go has for it in a string.
func Printable(text string) string {
	var b strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		char := text[:size]
		text = text[size:]
		if !strconv.IsGraphic(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.Quote(char)
			char = quoted[1 : len(quoted)-1]
		}
		b.WriteString(char)
	}
	return b.String()
}

// Left says how much time a hold has left, rounded down.
func Left(d time.Duration) string {
	switch {
	case d == holdfast.Forever:
		return "forever"
	case d == driver.Unknown:
		return "?"
	case d < 10*time.Second:
		return d.Truncate(100 * time.Millisecond).String()
	}
	return d.Truncate(time.Second).String()
}
