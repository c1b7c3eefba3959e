package top

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
	"github.com/gdamore/tcell/v3"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/look"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/screen"
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

	begun   bool       // there was a look, with or without an answer
	last    look.Sight // the last one with an answer
	trouble string     // why the last look had no answer, if so

	order  order
	filter string
	typing bool // the filter is being typed

	rows   []*holdfast.Status // of the last sight, filtered and sorted
	widths [columns]int       // that the rows need
	cursor int                // the selected row
	scroll int                // the first row on the screen
	page   int                // how many rows the screen had when it was drawn
}

// see takes in a sight.
func (b *board) see(s look.Sight) {
	b.begun = true
	if s.Err != nil {
		b.trouble = look.NoAnswer(s.Err)
		return
	}
	b.last, b.trouble = s, ""
	b.arrange()
}

// arrange filters and sorts the rows. The cursor stays on its hold, or on its row if
// the hold is gone.
func (b *board) arrange() {
	selected := b.selected()
	b.rows = b.rows[:0:0]
	b.widths = [columns]int{}
	wanted := strings.ToLower(b.filter)
	for i := range b.last.Holds {
		s := &b.last.Holds[i]
		if wanted == "" || has(s, wanted) {
			b.rows = append(b.rows, s)
			for c, text := range namesOf(s) {
				b.widths[c] = max(b.widths[c], displaywidth.String(text))
			}
		}
	}
	slices.SortStableFunc(b.rows, func(x, y *holdfast.Status) int { // stable: they are sorted by resource already
		switch b.order {
		case byLeft:
			return cmp.Compare(x.Left, y.Left)
		case bySince:
			return x.Created.Compare(y.Created)
		}
		return 0
	})
	if selected != nil {
		if i := slices.IndexFunc(b.rows, func(s *holdfast.Status) bool { return s.Ref() == selected.Ref() }); i >= 0 {
			b.cursor = i
		}
	}
	b.move(0)
}

// has reports whether a name or the comment of the hold contains the lower-case
// text.
func has(s *holdfast.Status, wanted string) bool {
	for _, text := range []string{s.Resource, s.LockID, s.Owner, s.Host, s.Comment, s.Mode.String()} {
		if strings.Contains(strings.ToLower(text), wanted) {
			return true
		}
	}
	return false
}

// selected returns the hold under the cursor, or nil.
func (b *board) selected() *holdfast.Status {
	if b.cursor >= len(b.rows) {
		return nil
	}
	return b.rows[b.cursor]
}

// move moves the cursor by so many rows.
func (b *board) move(by int) { b.cursor = max(0, min(b.cursor+by, len(b.rows)-1)) }

// lookKey looks at the store now.
const lookKey screen.Command = screen.SuspendKey + 1

// handle handles the event, and returns the command that is left to the caller.
func (b *board) handle(ev tcell.Event) screen.Command {
	key, ok := ev.(*tcell.EventKey)
	if !ok || !b.typing || key.Key() == tcell.KeyCtrlC {
		if c := screen.CommandOf(ev); c != screen.OtherKey || !ok {
			return c
		}
	}
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
	return screen.OtherKey
}

func (b *board) typed(text string) screen.Command {
	if b.typing {
		b.narrow(b.filter + text)
		return screen.OtherKey
	}
	switch text {
	case "/":
		b.typing = true
	case "s":
		b.order = (b.order + 1) % orders
		b.arrange()
	case "r":
		return lookKey
	}
	return screen.OtherKey
}

func (b *board) narrow(filter string) {
	if filter != b.filter {
		b.filter = filter
		b.arrange()
	}
}
