package top

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/statuscmd"
)

// order is what the rows of a board are sorted by.
type order int

const (
	byResource order = iota
	byLeft
	bySince
	orders
)

func (o order) String() string {
	return [...]string{byResource: "resource", byLeft: "time left", bySince: "held since"}[o]
}

// board is what top shows: the last sight of a store, and how the user has chosen to
// see it.
type board struct {
	where    location.Location
	interval time.Duration // between two looks, unless they take too long

	last    statuscmd.Sight // the last one with an answer
	trouble string          // why the last look had no answer, if so

	order  order
	filter string
	typing bool // the filter is being typed

	rows   []row // of the last sight, filtered and sorted
	cursor int   // the selected row
	scroll int   // the first row on the screen
	page   int   // how many rows the screen had when it was drawn
}

// see takes in a sight.
func (b *board) see(s statuscmd.Sight) {
	if s.Err != nil {
		b.trouble = statuscmd.NoAnswer(s.Err)
		return
	}
	b.last, b.trouble = s, ""
	b.arrange()
}

// arrange filters and sorts the rows. The cursor stays on its hold or waiter, or on its
// row if that is gone.
func (b *board) arrange() {
	selected := b.selected()
	wanted := strings.ToLower(b.filter)
	var holds []*holdfast.Status
	for i := range b.last.Holds {
		holds = append(holds, &b.last.Holds[i])
	}
	slices.SortStableFunc(holds, func(x, y *holdfast.Status) int { // stable: they are sorted by resource already
		switch b.order {
		case byLeft:
			return cmp.Compare(x.Left, y.Left)
		case bySince:
			return x.Created.Compare(y.Created)
		}
		return 0
	})
	b.rows = slices.DeleteFunc(b.withWaiters(holds), func(r row) bool { return wanted != "" && !r.has(wanted) })
	if selected != (row{}) {
		if i := slices.IndexFunc(b.rows, selected.is); i >= 0 {
			b.cursor = i
		}
	}
	b.move(0)
}

// withWaiters returns the rows of the holds, and below the last hold of each resource
// the rows of its waiters. Resources that are free but waited for come last.
func (b *board) withWaiters(holds []*holdfast.Status) []row {
	left := make(map[string]int) // how many holds of the resource are still to come
	for _, s := range holds {
		left[s.Resource]++
	}
	rows := make([]row, 0, len(holds)+b.last.Queues.Len())
	for _, s := range holds {
		rows = append(rows, row{hold: s})
		if left[s.Resource]--; left[s.Resource] == 0 {
			rows = appendPlaces(rows, b.last.Queues[s.Resource])
		}
	}
	for _, resource := range slices.Sorted(maps.Keys(b.last.Queues)) {
		if _, held := left[resource]; !held {
			rows = appendPlaces(rows, b.last.Queues[resource])
		}
	}
	return rows
}

func appendPlaces(rows []row, places []output.Waiting) []row {
	for i := range places {
		rows = append(rows, row{place: &places[i]})
	}
	return rows
}

// selected returns the row under the cursor, or the zero row.
func (b *board) selected() row {
	if b.cursor >= len(b.rows) {
		return row{}
	}
	return b.rows[b.cursor]
}

// move moves the cursor by so many rows.
func (b *board) move(by int) { b.cursor = max(0, min(b.cursor+by, len(b.rows)-1)) }

// handle handles the key, and reports whether to look at the store now.
func (b *board) handle(key *tcell.EventKey) (look bool) {
	switch key.Key() {
	case tcell.KeyUp:
		b.move(-1)
	case tcell.KeyDown:
		b.move(1)
	case tcell.KeyPgUp:
		b.move(-b.page)
	case tcell.KeyPgDn:
		b.move(b.page)
	case tcell.KeyHome:
		b.move(-len(b.rows))
	case tcell.KeyEnd:
		b.move(len(b.rows))
	case tcell.KeyEsc:
		b.typing = false
		b.narrow("")
	case tcell.KeyEnter:
		b.typing = false
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		if b.typing {
			_, size := utf8.DecodeLastRuneInString(b.filter)
			b.narrow(b.filter[:len(b.filter)-size])
		}
	case tcell.KeyRune:
		return b.typed(key.Str())
	}
	return false
}

func (b *board) typed(text string) (look bool) {
	switch {
	case b.typing:
		b.narrow(b.filter + text)
	case text == "/":
		b.typing = true
	case text == "s":
		b.order = (b.order + 1) % orders
		b.arrange()
	}
	return text == "r" && !b.typing
}

func (b *board) narrow(filter string) {
	if filter != b.filter {
		b.filter = filter
		b.arrange()
	}
}
