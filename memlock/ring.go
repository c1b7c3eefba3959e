package memlock

import "github.com/holdfast-go/holdfast/driver/model"

// entry is a record in a ring: in that of the records with holds or in that of those
// without, each in the order of their last changes. A change moves it, at no cost, so
// a sweep reads only what is due.
type entry struct {
	record     model.Record
	prev, next *entry
}

// newRing returns the root of an empty ring, which is no entry of it.
func newRing() *entry {
	root := new(entry)
	root.prev, root.next = root, root
	return root
}

// append makes e the last of the ring.
func (root *entry) append(e *entry) {
	e.prev, e.next = root.prev, root
	e.prev.next, root.prev = e, e
}

func (e *entry) unlink() { e.prev.next, e.next.prev = e.next, e.prev }
