package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// HoldRows returns the rows of a table of holds, the titles first.
func HoldRows(holds []holdfast.Status) [][]string {
	return HoldRowsBy("LOCK ID", holds, func(s holdfast.Status) string { return s.LockID })
}

// HoldRowsBy returns the rows with the ID of each hold that id returns.
func HoldRowsBy(title string, holds []holdfast.Status, id func(holdfast.Status) string) [][]string {
	rows := [][]string{{"RESOURCE", "MODE", "OWNER", "HOST", "LEFT", "TOKEN", title, "COMMENT"}}
	for _, s := range holds {
		rows = append(rows, []string{
			s.Resource, s.Mode.String(), s.Owner, s.Host, Left(s.Left),
			token(s.Token), id(s), Comment(s),
		})
	}
	return rows
}

// token returns a token for a table, "-" if a server does not show it.
func token(t uint64) string {
	if t == 0 {
		return "-"
	}
	return strconv.FormatUint(t, 10)
}

// entry is a hold in JSON. Scripts read it: a field may be added, none changed.
type entry struct {
	Resource string          `json:"resource"`
	LockID   string          `json:"lockId"`
	HoldID   holdfast.HoldID `json:"holdId"`
	Mode     holdfast.Mode   `json:"mode"`
	Limit    *int            `json:"limit"` // null for an exclusive hold, or if it is not known
	Owner    string          `json:"owner"`
	Host     string          `json:"host"`
	Comment  string          `json:"comment"`
	Token    uint64          `json:"token"`
	// TTLMs is the time left: -1 without an end, null if the store cannot tell.
	TTLMs           *int64     `json:"ttlMs"`
	CreatedAt       *time.Time `json:"createdAt"`
	RenewedAt       *time.Time `json:"renewedAt"`
	AgeMs           *int64     `json:"ageMs"`        // since CreatedAt by the store's clock, null if it cannot tell
	RenewedAgoMs    *int64     `json:"renewedAgoMs"` // since RenewedAt
	TakeoverDelayMs int64      `json:"takeoverDelayMs"`
	Released        bool       `json:"released"`
	State           string     `json:"state"`
	// Waiters wait for the resource. There is no such field if they were not listed, or
	// if the store keeps no queue.
	Waiters []waiter `json:"waiters,omitzero"`
}

func entryOf(s holdfast.Status) entry {
	e := entry{
		Resource: s.Resource, LockID: s.LockID, HoldID: s.HoldID, Mode: s.Mode,
		Owner: s.Owner, Host: s.Host, Comment: s.Comment, Token: s.Token,
		CreatedAt: moment(s.Created), RenewedAt: moment(s.Renewed), AgeMs: millis(s.Age()), RenewedAgoMs: millis(s.RenewedAgo()),
		TakeoverDelayMs: s.TakeoverDelay.Milliseconds(), Released: s.Released, State: stateOf(s),
		Limit: limitOf(s.Mode, s.Limit),
	}
	switch s.Left {
	case driver.Unknown:
	case holdfast.Forever:
		e.TTLMs = new(int64(-1))
	default:
		e.TTLMs = new(s.Left.Milliseconds())
	}
	return e
}

// millis returns an age for JSON: null if it is not known.
func millis(age time.Duration) *int64 {
	if age == driver.Unknown {
		return nil
	}
	return new(age.Milliseconds())
}

// moment returns the time for JSON: null for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// vacancy is in JSON a resource that is free, and yet waited for. Scripts read it: a field
// may be added, none changed.
type vacancy struct {
	Resource string           `json:"resource"`
	HoldID   *holdfast.HoldID `json:"holdId"` // null, unlike that of a hold
	Waiters  []waiter         `json:"waiters"`
}

// HoldsJSON prints the holds as a JSON array in many lines, each with the waiters of
// its resource. If any are given, the holds are sorted by resource; resources that are free
// are among them.
func HoldsJSON(out io.Writer, holds []holdfast.Status, q Queues) error {
	entries := make([]any, 0, len(holds)) // [] rather than null
	for resource, of := range byResource(holds, q) {
		if len(of) == 0 {
			entries = append(entries, vacancy{Resource: resource, Waiters: q.json(resource)})
		}
		for _, s := range of {
			e := entryOf(s)
			e.Waiters = q.json(resource)
			entries = append(entries, e)
		}
	}
	return JSON(out, entries)
}

// HoldsJSONLine prints the holds as a JSON array in one line.
func HoldsJSONLine(out io.Writer, holds []holdfast.Status, q Queues) error {
	var lines, line bytes.Buffer
	if err := HoldsJSON(&lines, holds, q); err != nil {
		return err
	}
	if err := json.Compact(&line, lines.Bytes()); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, line.String())
	return err
}
