package holdfast

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/holdfast-go/holdfast/internal/quote"
)

// Printed and logged values leave out the hold ID, which is a secret: see driver/print.go.
// They have only what never changes, because they are read without a lock.

// Format implements fmt.Formatter. It writes the mode, the resource and the token.
func (h *Hold) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%v hold of %s, token %d", h.Mode(), quote.Name(h.Resource()), h.Token())
}

// LogValue implements slog.LogValuer. It returns the resource, the mode and the token.
func (h *Hold) LogValue() slog.Value {
	if h == nil {
		return slog.AnyValue(nil)
	}
	return slog.GroupValue(slog.String("resource", h.Resource()), slog.String("mode", h.Mode().String()), slog.Uint64("token", h.Token()))
}

// Format implements fmt.Formatter. It writes the kind of the store.
func (c *Client) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "Client of a ", c.store.Traits().Name, " store")
}

// Format implements fmt.Formatter. It writes the info without the hold ID.
func (i AttemptInfo) Format(f fmt.State, verb rune) {
	fmt.Fprintf(f, fmt.FormatString(f, verb), struct {
		LockInfo
		Start time.Time
		Took  time.Duration
		Token uint64
		Err   error
	}{i.LockInfo, i.Start, i.Took, i.Token, i.Err})
}

// LogValue implements slog.LogValuer. It returns the info without the hold ID.
func (i AttemptInfo) LogValue() slog.Value { return logged(i) }

// LogValue implements slog.LogValuer. It returns the info without the hold IDs in its error.
func (i WaitInfo) LogValue() slog.Value { return logged(i) }

// LogValue implements slog.LogValuer. It returns the info without the hold IDs in its error.
func (i FailInfo) LogValue() slog.Value { return logged(i) }

// logged returns a text, because JSON would include the hold IDs of a *HeldError.
func logged(info any) slog.Value { return slog.StringValue(fmt.Sprintf("%+v", info)) }
