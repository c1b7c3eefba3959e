// Package output prints: lines on stderr, tables for people, and JSON for
// programs. What it prints is safe to show on a terminal.
package output

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/secret"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/terminal"
)

// Reason returns the text of an error in one line, without the prefix that Say adds,
// and without the full stop that servers put behind theirs.
func Reason(err error) string {
	lines := strings.Split(strings.TrimPrefix(err.Error(), "holdfast: "), "\n")
	return strings.TrimSuffix(strings.Join(slices.Compact(lines), "; "), ".")
}

// Say prints one line of holdfast's own on stderr.
func Say(format string, args ...any) {
	line := Printable(secret.Redact(fmt.Sprintf(format, args...)))
	terminal.Quietly(func() { fmt.Fprintf(os.Stderr, "holdfast: %s\n", line) })
}
