// Package audit writes who did what to a file: one line of JSON for each event. It is for
// those who ask later why a lock was gone, and delays nobody's lock.
//
// A line is safe to print: what names and reasons have of control characters, line ends,
// marks that turn the direction of text and others that are not seen is escaped.
package audit

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Event is what somebody did, or was kept from. It has no hold IDs, lock IDs or tokens of
// callers. A member that is empty is left out.
type Event struct {
	// Time is when the Log got it, which sets it.
	Time time.Time `json:"time"`
	// Caller is the name of who did it, and Address where the request came from.
	Caller  string `json:"caller,omitempty"`
	Address string `json:"address,omitempty"`
	// Action is what the caller asked for: acquire, release, force-release, login, …
	Action   string `json:"action"`
	Resource string `json:"resource,omitempty"`
	// Ref is wire.RefOf the hold ID.
	Ref string `json:"ref,omitempty"`
	// Token is the fencing token of the hold.
	Token uint64 `json:"token,omitempty"`
	// Outcome is what became of it: granted, released, denied, …
	Outcome string `json:"outcome,omitempty"`
	// Reason is why a caller used force, or why it was denied.
	Reason string `json:"reason,omitempty"`
	// Items is how many items of a request this stands for, if they are several: the rest is
	// of the first of them. Omitted is how many the caller had before in no event.
	Items   int `json:"items,omitempty"`
	Omitted int `json:"omitted,omitempty"`
	// Dropped is how many events before this one are missing, because they came faster than
	// they could be written.
	Dropped uint64 `json:"dropped,omitempty"`
}

// appendLine appends the event and a line end.
func appendLine(to []byte, e Event) []byte {
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	text, _ := json.Marshal(e) // never fails
	return append(appendPrintable(to, text), '\n')
}

// appendPrintable appends JSON, and escapes what is not seen. There is no such thing outside
// of its strings.
func appendPrintable(to, text []byte) []byte {
	for len(text) > 0 {
		r, n := utf8.DecodeRune(text)
		switch {
		case unicode.IsPrint(r):
			to = append(to, text[:n]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			to = fmt.Appendf(to, `\u%04x\u%04x`, high, low)
		default:
			to = fmt.Appendf(to, `\u%04x`, r)
		}
		text = text[n:]
	}
	return to
}
