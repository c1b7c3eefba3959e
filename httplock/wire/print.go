package wire

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"regexp"
)

// Printed and logged values have no hold IDs, see driver/print.go, and no IDs of places,
// which may also be IDs of future holds: a wait uses one ID for both. A Renewal, a
// Release and a ForceRequest print their Ref.

var ids = regexp.MustCompile(`"(holdId|placeId)":"[^"]*"`)

// shown returns the JSON of v without IDs.
func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error() // for example a time in the year 10000
	}
	return ids.ReplaceAllString(string(text), `"$1":"xxxxx"`)
}

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v AcquireRequest) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v Grant) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v Ref) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v RenewResult) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v ReleaseResult) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v Hold) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v Held) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// Format implements fmt.Formatter. It prints JSON without IDs.
func (v Refusal) Format(f fmt.State, _ rune) { fmt.Fprint(f, shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v AcquireRequest) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v Grant) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v Ref) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v Batch[Item]) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v RenewResult) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v ReleaseResult) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v BatchAnswer[Result]) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v Hold) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v HoldList) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v Held) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v Refusal) LogValue() slog.Value { return slog.StringValue(shown(v)) }

// LogValue implements slog.LogValuer. It has JSON without IDs.
func (v End) LogValue() slog.Value { return slog.StringValue(shown(v)) }
