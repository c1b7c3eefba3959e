// Package fit says what a store's promises, and the times of its answers, mean for those who
// lock in it.
package fit

// Verdict is the result of a Finding.
type Verdict string

// The verdicts.
const (
	OK   Verdict = "ok"
	Note Verdict = "note" // something that the user should know
	Warn Verdict = "warn" // it can be used, but not for everything, or not as it is
	Fail Verdict = "fail" // it cannot be used
)

// Finding is one result of a check. Scripts read it as JSON: a field may be added, none changed.
type Finding struct {
	// Check is a word that scripts may look for.
	Check  string  `json:"check"`
	Result Verdict `json:"result"`
	// Text is what was found and what to do about it.
	Text string `json:"text"`
	// Err is the store's error, if there was one.
	Err error `json:"-"`
}
