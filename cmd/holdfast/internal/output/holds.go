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
			strconv.FormatUint(s.Token, 10), id(s), s.Comment,
		})
	}
	return rows
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
	WaitedAt        *time.Time `json:"waitedAt"`
	TakeoverDelayMs int64      `json:"takeoverDelayMs"`
	Released        bool       `json:"released"`
}

func entryOf(s holdfast.Status) entry {
	e := entry{
		Resource: s.Resource, LockID: s.LockID, HoldID: s.HoldID, Mode: s.Mode,
		Owner: s.Owner, Host: s.Host, Comment: s.Comment, Token: s.Token,
		CreatedAt: moment(s.Created), RenewedAt: moment(s.Renewed), WaitedAt: moment(s.Waited),
		TakeoverDelayMs: s.TakeoverDelay.Milliseconds(), Released: s.Released,
	}
	if s.Mode == holdfast.Shared && s.Limit != holdfast.LimitUnknown {
		e.Limit = &s.Limit
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

// moment returns the time for JSON: null for the zero time.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// HoldsJSON prints the holds as a JSON array in many lines.
func HoldsJSON(out io.Writer, holds []holdfast.Status) error {
	entries := make([]entry, len(holds)) // [] rather than null
	for i, s := range holds {
		entries[i] = entryOf(s)
	}
	return JSON(out, entries)
}

// HoldsJSONLine prints the holds as a JSON array in one line.
func HoldsJSONLine(out io.Writer, holds []holdfast.Status) error {
	var lines, line bytes.Buffer
	if err := HoldsJSON(&lines, holds); err != nil {
		return err
	}
	if err := json.Compact(&line, lines.Bytes()); err != nil {
		return err
	}
	_, err := fmt.Fprintln(out, line.String())
	return err
}
