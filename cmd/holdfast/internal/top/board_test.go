package top

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/location"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/statuscmd"
	"github.com/holdfast-go/holdfast/driver"
)

func holdOf(resource string, left time.Duration, created time.Time) holdfast.Status {
	return holdfast.Status{
		Resource: resource, LockID: "lock " + resource, HoldID: driver.NewHoldID(), Left: left, Created: created,
	}
}

func (b *board) names() string {
	var names []string
	for _, r := range b.rows {
		names = append(names, strings.TrimSpace(b.cells(r, time.Now())[0]))
	}
	return strings.Join(names, " ")
}

func joined(lines [detailLines - 1]string) string { return strings.Join(lines[:], "\n") }

func TestBoardKeepsItsCursorOnTheHold(t *testing.T) {
	born := time.Now()
	a, b, c := holdOf("a", time.Hour, born), holdOf("b", time.Minute, born.Add(-1)), holdOf("c", holdfast.Forever, born.Add(-2))
	var on board
	on.see(statuscmd.Sight{Holds: []holdfast.Status{a, c}, Begun: born})
	on.move(1)
	on.see(statuscmd.Sight{Holds: []holdfast.Status{a, b, c}, Begun: born})
	for _, step := range []struct {
		order string
		keys  func()
	}{
		{"a b c", func() {}},
		{"b a c", func() { on.typed("s") }},
		{"c b a", func() { on.typed("s") }},
		{"a b c", func() { on.typed("s") }},
		{"c", func() { on.narrow("LOCK C") }},
		{"", func() { on.narrow("nobody") }},
		{"a b c", func() { on.narrow("") }},
	} {
		step.keys()
		if got := on.names(); got != step.order {
			t.Fatalf("the rows are %q, want %q", got, step.order)
		}
		if r := on.selected(); step.order != "" && step.order != "a b c" && r.hold.Resource != "c" {
			t.Errorf("with the rows %q the cursor is on %s", step.order, r.hold.Resource)
		}
	}
	// Its hold is gone, or was retaken: the cursor stays where it is.
	on.move(2)
	retaken := holdOf("c", time.Hour, born)
	on.see(statuscmd.Sight{Holds: []holdfast.Status{a, b, retaken}, Begun: born})
	if r := on.selected(); r.hold.Resource != "c" {
		t.Errorf("the cursor is on %s", r.hold.Resource)
	}
	on.see(statuscmd.Sight{Holds: []holdfast.Status{a, b}, Begun: born})
	if r := on.selected(); r.hold.Resource != "b" {
		t.Errorf("the cursor is on %s", r.hold.Resource)
	}
	// Without an answer there is still what was seen last.
	on.see(statuscmd.Sight{Err: errors.New("no route")})
	if on.names() != "a b" || !strings.Contains(on.trouble, "no route") {
		t.Errorf("%q, %q", on.names(), on.trouble)
	}
	on.see(statuscmd.Sight{})
	if on.selected() != (row{}) || on.trouble != "" {
		t.Errorf("%v, %q", on.selected(), on.trouble)
	}
}

// Waiters stand below the holds of their resource, in every order.
func TestBoardShowsWaiters(t *testing.T) {
	born := time.Now()
	store := born.Add(-time.Hour) // the store's clock then
	a, c := holdOf("a", time.Hour, born), holdOf("c", time.Minute, born)
	var waiters []holdfast.Place
	for i, resource := range []string{"a", "a", "b"} {
		waiters = append(waiters, holdfast.Place{
			Resource: resource, LockID: fmt.Sprint("waiter ", i), Fair: i != 2,
			Since: store.Add(-time.Minute), Asked: store, Seen: store, Left: driver.FairPlaceTTL,
		})
	}
	q := output.QueuesOf(waiters)
	var b board
	b.see(statuscmd.Sight{Holds: []holdfast.Status{a, c}, Queues: q, Begun: born})
	for _, want := range []string{"a 1. a 2. a c -  b", "c a 1. a 2. a -  b"} {
		if got := b.names(); got != want {
			t.Errorf("the rows are %q, want %q", got, want)
		}
		b.typed("s")
	}
	if title := b.title(); !strings.Contains(title, "holds: 2, waiters: 3, by held since") {
		t.Errorf("the title is %s", title)
	}
	b.narrow("waiter 1")
	if got := b.names(); got != "2. a" || !strings.Contains(b.title(), "1 of 5 holds and waiters") {
		t.Errorf("the rows are %q below %s", got, b.title())
	}
	got := joined(b.detailsOfPlace(b.selected().place, born.Add(time.Second)))
	for _, want := range []string{
		"a  exclusive, position 2 of 2, nobody who comes later gets it before", "lock ID waiter 1\n",
		", for 1m1s; asked 1s ago, its place ends in 9s unless it asks again", "holdfast explain",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	hidden := *b.selected().place
	hidden.LockID = ""
	if got := joined(b.detailsOfPlace(&hidden, born)); !strings.Contains(got, "lock ID -\n") {
		t.Errorf("the lock ID is not left out:\n%s", got)
	}
	// The cursor stays on the waiter, wherever that is.
	b.narrow("")
	q["a"] = q["a"][1:]
	b.see(statuscmd.Sight{Holds: []holdfast.Status{a, c}, Queues: q, Begun: born})
	if p := b.selected().place; p == nil || p.LockID != "waiter 1" {
		t.Errorf("the cursor is on %+v", b.selected())
	}
	for r, want := range map[row]string{{hold: &a}: "1 waits", {hold: &c}: "-", {place: &q["a"][0]}: "for 1m0s"} {
		if got := b.cells(r, born); got[6] != want {
			t.Errorf("the queue of %s is shown as %q, want %q", got[0], got[6], want)
		}
	}
}

func TestBoardCountsDown(t *testing.T) {
	born := time.Now()
	b := board{last: statuscmd.Sight{Begun: born}}
	for d, want := range map[time.Duration]string{
		time.Minute:              "50s",
		10500 * time.Millisecond: "0s",
		9 * time.Second:          "0s",
		0:                        "0s",
		holdfast.Forever:         "no end",
		driver.Unknown:           "?",
	} {
		s := holdOf("r", d, born)
		if got := b.leftOf(&s, born.Add(10*time.Second)); got != want {
			t.Errorf("of %v after 10 s: %s, want %s", d, got, want)
		}
	}
}

func TestBoardDetails(t *testing.T) {
	born := time.Now()
	s := holdOf("-r", time.Minute, born)
	s.Released = true
	b := board{where: location.Location{URL: "redis://host/0"}, last: statuscmd.Sight{Begun: born}}
	got := joined(b.details(&s, born))
	for _, want := range []string{
		"lock ID lock -r  hold ID " + s.HoldID.String(), "released, ends in 1m0s after --at-least",
		"holdfast unlock --force --store redis://host/0 \\\n  --hold " + s.HoldID.String() + " -- -r",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// Holds of old programs have no hold ID. A server leaves it and the lock ID out of what it
// shows to those who may not force.
func TestBoardDetailsWithoutIDs(t *testing.T) {
	born := time.Now()
	s := holdOf("r", time.Minute, born)
	s.HoldID = holdfast.HoldID{}
	b := board{where: location.Location{URL: "redis://host/0"}, last: statuscmd.Sight{Begun: born}}
	if got := joined(b.details(&s, born)); !strings.Contains(got, "lock ID lock r  hold ID -\n") || !strings.Contains(got, "\nholdfast unlock --force --store redis://host/0 \\\n  r") {
		t.Error(got)
	}
	s.LockID = ""
	if got := joined(b.details(&s, born)); !strings.Contains(got, "lock ID -  hold ID -\n") || strings.Contains(got, "unlock --force") {
		t.Error(got)
	}
}

func TestBoardFitsAnyWidth(t *testing.T) {
	var b board
	h := holdOf(strings.Repeat("resource ", 10), time.Hour, time.Now())
	h.Comment = strings.Repeat("comment ", 20)
	h.Owner, h.Host = "ada", "web1"
	rows := [][]string{b.cells(row{hold: &h}, time.Now())}
	titles := func(width int) string {
		var titles []string
		total := -columnGap
		for _, c := range fit(width, rows) {
			titles = append(titles, c.title)
			total += c.width + columnGap
			if c.width < c.least {
				t.Errorf("%s has %d columns of %d", c.title, c.width, width)
			}
		}
		if len(titles) > 2 && total > width {
			t.Errorf("%d columns take %d of %d", len(titles), total, width)
		}
		return strings.Join(titles, ", ")
	}
	for width, want := range map[int]string{
		1:   "RESOURCE, LEFT",
		40:  "RESOURCE, LEFT, OWNER",
		80:  "RESOURCE, LEFT, OWNER, SINCE, QUEUE, COMMENT",
		500: "RESOURCE, LEFT, OWNER, HOST, MODE, SINCE, QUEUE, TOKEN, COMMENT",
	} {
		if got := titles(width); got != want {
			t.Errorf("%d columns have room for %s, want %s", width, got, want)
		}
	}
	for width := range 300 {
		titles(width)
	}
	if all := fit(500, rows); all[0].width != 90 || all[8].width != 160 {
		t.Errorf("not as wide as the texts: %+v", all)
	}
}

// The ages of a hold are those of the store's clock, counted on by this machine's.
func TestBoardShowsAges(t *testing.T) {
	born := time.Now()
	store := time.Date(2026, 11, 21, 12, 30, 0, 0, time.Local)
	s := holdOf("a", time.Hour, store.Add(-time.Minute))
	s.Seen, s.Renewed = store, store.Add(-10*time.Second)
	var b board
	b.see(statuscmd.Sight{Holds: []holdfast.Status{s}, Begun: born})
	for want, change := range map[string]func(*holdfast.Status){
		"held since 2026-11-21 12:29:00, for 1m1s; renewed 2026-11-21 12:29:50, 11s ago\nleft 59m59s, then takeover delay 0s": func(*holdfast.Status) {},
		"held since 2026-11-21 12:29:00, for 1m1s; never renewed\n":                                                           func(s *holdfast.Status) { s.Renewed = time.Time{} },
		"held since 2026-11-21 12:29:00 by another clock; renewed 2026-11-21 12:29:50 by another clock\n":                     func(s *holdfast.Status) { s.Seen = time.Time{} },
	} {
		shown := s
		change(&shown)
		if got := joined(b.details(&shown, born.Add(time.Second))); !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := b.cells(b.rows[0], born)[5]; got != "12:29:00" {
		t.Errorf("it is shown as held since %s", got)
	}
}

func TestClockTime(t *testing.T) {
	if got := clockTime(time.Now(), time.Time{}); got != "?" {
		t.Errorf("a time of another clock is shown as %s", got)
	}
	now := time.Date(2026, 11, 21, 12, 30, 0, 0, time.Local)
	for then, want := range map[time.Time]string{
		now.Add(-time.Hour):                             "11:30:00",
		now.AddDate(0, 0, -1):                           "Nov 20 12:30",
		time.Date(2025, 12, 31, 1, 2, 3, 0, time.Local): "2025-12-31",
		now.Add(-time.Hour).UTC():                       "11:30:00",
		{}:                                              "-",
	} {
		if got := clockTime(then, now); got != want {
			t.Errorf("%v is shown as %s, want %s", then, got, want)
		}
	}
}
