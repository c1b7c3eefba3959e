package memlock

import "github.com/holdfast-go/holdfast/driver/model"

// entry is a record in one of two rings: of records with holds or waiters, or of idle
// records. Each ring is in the order of the last changes. Moving an entry costs nothing,
// so a sweep reads only what is due.
type entry struct {
	record     model.Record
	prev, next *entry
}

// newRing returns the root of an empty ring. The root is not an entry.
func newRing() *entry {
	root := new(entry)
	root.prev, root.next = root, root
	return root
}

// append puts e at the end of the ring.
func (root *entry) append(e *entry) {
	e.prev, e.next = root.prev, root
	e.prev.next, root.prev = e, e
}

func (e *entry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
