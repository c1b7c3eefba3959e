package main

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// printable makes text fit for one line of a terminal: what is not to be seen,
// such as control characters, escape sequences and marks that turn the direction
// of writing, is shown as Go writes it in a string.
func printable(text string) string {
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

// userInfo is what stands before the @ of a URL: to the end of the word, or of the
// string in quotation marks.
var userInfo = regexp.MustCompile(`("[A-Za-z][A-Za-z0-9+.-]*://)(?:[^"\\]|\\.)*@|([A-Za-z][A-Za-z0-9+.-]*://)[^\s"']*@`)

// secretPair is a parameter of a URL that may be a password.
var secretPair = regexp.MustCompile(`([?&][^=&\s"']*(?i:` + secretWords + `)[^=&\s"']*=)[^&\s"']+`)

// redact takes passwords out of the URLs in a text. Stores never put theirs into
// an error; but a URL in the wrong place of the command line would be repeated.
func redact(text string) string {
	return secretPair.ReplaceAllString(userInfo.ReplaceAllString(text, "${1}${2}***@"), "${1}***")
}

// writeTable prints rows of cells below a line of titles. No line ends in spaces.
func writeTable(out io.Writer, rows [][]string) error {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(text.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// left says how much time a hold has, never more than there is.
func left(d time.Duration) string {
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
