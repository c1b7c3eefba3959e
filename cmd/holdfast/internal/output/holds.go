package output

import (
	"io"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// HoldRows returns the rows of a table of holds, the titles first.
func HoldRows(holds []holdfast.Status) [][]string {
	return HoldRowsBy("LOCK ID", holds, func(s holdfast.Status) string { return s.LockID })
}

// HoldRowsBy returns the rows with the ID of each hold that id returns.
func HoldRowsBy(title string, holds []holdfast.Status, id func(holdfast.Status) string) [][]string {
	rows := [][]string{{"RESOURCE", "MODE", "OWNER", "HOST", "LEFT", "HELD", "TOKEN", title, "COMMENT"}}
	for _, s := range holds {
		rows = append(rows, []string{
			s.Resource, s.Mode.String(), s.Owner, s.Host, Left(s.Left), Ago(s.Age()),
			token(s.Token), id(s), Comment(s),
		})
	}
	return rows
}

// WithoutIDs removes the columns of rows that people need least.
func WithoutIDs(rows [][]string) {
	for i := range rows {
		rows[i] = slices.Delete(rows[i], 6, 8)
	}
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
	// These are there also if a server does not show them.
	Resource string          `json:"resource"`
	LockID   string          `json:"lockId"`
	HoldID   holdfast.HoldID `json:"holdId"`
	wire.Hold
	Token uint64 `json:"token"`
	State string `json:"state"`
	// Waiters wait for the resource. There is no such field if they were not listed, or
	// if the store keeps no queue.
	Waiters []waiter `json:"waiters,omitzero"`
}

func entryOf(s holdfast.Status, waiters []waiter) entry {
	h := wire.HoldOf(s)
	h.Ref = "" // for other programs than servers
	return entry{s.Resource, s.LockID, s.HoldID, h, s.Token, stateOf(s), waiters}
}

// vacancy is in JSON a resource that is free, and yet waited for. Scripts read it: a field
// may be added, none changed.
type vacancy struct {
	Resource string           `json:"resource"`
	HoldID   *holdfast.HoldID `json:"holdId"` // null, unlike that of a hold
	Waiters  []waiter         `json:"waiters"`
}

// HoldsJSON prints the holds as a JSON array in many lines, each with the waiters of
// its resource. Resources that are free, and yet waited for, are among the others.
func HoldsJSON(out io.Writer, holds []holdfast.Status, q Queues) error {
	return JSON(out, entriesOf(holds, q))
}

// HoldsJSONLine prints the holds as a JSON array in one line.
func HoldsJSONLine(out io.Writer, holds []holdfast.Status, q Queues) error {
	return printJSON(out, entriesOf(holds, q), "")
}

func entriesOf(holds []holdfast.Status, q Queues) []any {
	entries := make([]any, 0, len(holds)) // [] rather than null
	for resource, of := range byResource(holds, q) {
		if len(of) == 0 {
			entries = append(entries, vacancy{Resource: resource, Waiters: q.json(resource)})
		}
		for _, s := range of {
			entries = append(entries, entryOf(s, q.json(resource)))
		}
	}
	return entries
}
