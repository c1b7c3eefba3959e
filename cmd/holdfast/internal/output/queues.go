package output

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httplock/wire"
	"github.com/holdfast-go/holdfast/server/words"
)

// Waiting is one that waits for a resource.
type Waiting struct {
	holdfast.Place
	// Turn is where it stands among those in turn, 1 for the first, and 0 if it is not one of
	// them: others may overtake it, and be overtaken.
	Turn int
}

// Queues are the waiters of each resource, in their order. It is nil if they were
// not listed.
type Queues map[string][]Waiting

// QueuesOf returns the queues of the waiters, which are in the order of their queues.
func QueuesOf(waiters []holdfast.Place) Queues {
	q := Queues{}
	inTurn := make(map[string]int)
	for _, p := range waiters {
		w := Waiting{Place: p}
		if p.Fair {
			inTurn[p.Resource]++
			w.Turn = inTurn[p.Resource]
		}
		q[p.Resource] = append(q[p.Resource], w)
	}
	return q
}

// Len returns how many wait.
func (q Queues) Len() (n int) {
	for _, queue := range q {
		n += len(queue)
	}
	return n
}

// QueuedRows returns the rows of a table of holds, the titles first, with the waiters
// below the last hold of their resource. Resources that are free, and yet waited for, are
// among the others.
func QueuedRows(holds []holdfast.Status, q Queues) [][]string {
	rows := HoldRows(nil)
	for resource, of := range byResource(holds, q) {
		rows = append(rows, HoldRows(of)[1:]...)
		if len(of) == 0 {
			rows = append(rows, []string{resource, "free", "", "", "", "", "", "", ""})
		}
		for _, p := range q[resource] {
			rows = append(rows, placeRow(p))
		}
	}
	return rows
}

// byResource yields the resources that are held or waited for, sorted, with their holds.
func byResource(holds []holdfast.Status, q Queues) iter.Seq2[string, []holdfast.Status] {
	of := make(map[string][]holdfast.Status)
	for resource := range q {
		of[resource] = nil
	}
	for _, s := range holds {
		of[s.Resource] = append(of[s.Resource], s)
	}
	return func(yield func(string, []holdfast.Status) bool) {
		for _, resource := range slices.Sorted(maps.Keys(of)) {
			if !yield(resource, of[resource]) {
				return
			}
		}
	}
}

// placeRow returns the row of a waiter. It does not begin with the name of the resource, so that
// scripts that look for a row of the resource find its holds.
func placeRow(w Waiting) []string {
	order := Fairness(w.Place)
	if asked, late := words.Late(w.Place); late {
		order += ", has not asked for " + Left(asked)
	}
	return []string{
		"  " + Number(w) + " " + w.Resource, w.Mode.String(), w.Owner, w.Host, "-", "-", "-", w.LockID,
		fmt.Sprintf("waits %s, %s", Since(w.Since, w.Age()), order),
	}
}

// Number returns the turn of the waiter as the number of a row in a list.
func Number(w Waiting) string {
	if w.Turn > 0 {
		return strconv.Itoa(w.Turn) + "."
	}
	return "- "
}

// Fairness returns the order in which the waiter is served.
func Fairness(p holdfast.Place) string {
	if p.Fair {
		return "in turn"
	}
	return "in any order"
}

// waiter is a waiter in JSON. Scripts read it: a field may be added, none changed.
type waiter struct {
	Position *int   `json:"position"` // 1: the first; null if it does not wait in turn
	LockID   string `json:"lockId"`   // also if a server does not show it
	wire.Waiter
	Resource omitted `json:"resource,omitempty"` // that of the hold
	Before   omitted `json:"before,omitempty"`   // Position says it
}

// omitted hides a member of an embedded struct.
type omitted = *struct{}

// json returns the waiters of a resource, [] if there are none and null if they were not
// listed.
func (q Queues) json(resource string) []waiter {
	if q == nil {
		return nil
	}
	queue := q[resource]
	all := make([]waiter, len(queue))
	for i, w := range queue {
		all[i] = waiter{LockID: w.LockID, Waiter: wire.WaiterOf(w.Place)}
		if w.Turn > 0 {
			all[i].Position = &w.Turn
		}
	}
	return all
}
