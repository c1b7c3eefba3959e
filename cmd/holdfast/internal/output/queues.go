package output

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// Waiting is one that waits for a resource.
type Waiting struct {
	holdfast.Place
	// Before is how many are served before it: those in turn whose places are before its
	// own. The others may be served before or after it.
	Before int
}

// Position returns where the waiter stands among those in turn, 1 for the first, and 0 if
// it is not one of them: others may overtake it, and be overtaken.
func (w Waiting) Position() int {
	if !w.Fair {
		return 0
	}
	return w.Before + 1
}

// Queues are the waiters of each resource, in their order. It is nil if they were
// not listed.
type Queues map[string][]Waiting

// QueuesOf returns the queues of the waiters, which are in the order of their queues.
func QueuesOf(waiters []holdfast.Place) Queues {
	q := Queues{}
	inTurn := make(map[string]int)
	for _, p := range waiters {
		q[p.Resource] = append(q[p.Resource], Waiting{p, inTurn[p.Resource]})
		if p.Fair {
			inTurn[p.Resource]++
		}
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
// below the last hold of their resource. The holds are sorted by resource. Resources that
// are free, and yet waited for, are among the others.
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

// byResource yields the resources with their holds, which follow one another. Resources
// that are waited for, and free, are among those of sorted holds.
func byResource(holds []holdfast.Status, q Queues) iter.Seq2[string, []holdfast.Status] {
	return func(yield func(string, []holdfast.Status) bool) {
		waited := slices.Sorted(maps.Keys(q))
		for len(holds)+len(waited) > 0 {
			var resource string
			if len(waited) == 0 || len(holds) > 0 && holds[0].Resource < waited[0] {
				resource = holds[0].Resource
			} else {
				resource, waited = waited[0], waited[1:]
			}
			n := 0
			for n < len(holds) && holds[n].Resource == resource {
				n++
			}
			if !yield(resource, holds[:n]) {
				return
			}
			holds = holds[n:]
		}
	}
}

func placeRow(w Waiting) []string {
	return []string{
		PlaceName(w), w.Mode.String(), w.Owner, w.Host, "-", "-", "-", w.LockID,
		fmt.Sprintf("waits %s, %s", Since(w.Since, w.Age()), Order(w.Place)),
	}
}

// PlaceName returns what stands in the place of a resource's name in the row of a waiter.
// It does not begin with the name, so that scripts that look for a row of the resource
// find its holds.
func PlaceName(w Waiting) string { return "  " + Number(w) + " " + w.Resource }

// Number returns the position of the waiter as the number of a row in a list.
func Number(w Waiting) string {
	if n := w.Position(); n > 0 {
		return strconv.Itoa(n) + "."
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

// Order returns the Fairness of the waiter, and that it is late.
func Order(p holdfast.Place) string {
	if asked, late := Late(p); late {
		return Fairness(p) + ", has not asked for " + Left(asked)
	}
	return Fairness(p)
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
		if n := w.Position(); n > 0 {
			all[i].Position = &n
		}
	}
	return all
}
