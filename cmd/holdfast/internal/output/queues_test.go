package output

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
)

// waiterOf is a waiter that has just asked for its place, in a store whose clock is an hour
// ahead.
func waiterOf(resource, owner string, fair bool, waited time.Duration) holdfast.Place {
	asked := time.Now().Add(time.Hour)
	return holdfast.Place{
		Resource: resource, LockID: "lock of " + owner, Owner: owner, Fair: fair,
		Since: asked.Add(-waited), Asked: asked, Seen: asked, Left: driver.FairPlaceTTL,
	}
}

// Waiters stand below the last hold of their resource, which may be free. Only those that
// wait in turn have positions.
func TestQueuedRows(t *testing.T) {
	q := QueuesOf([]holdfast.Place{
		waiterOf("b", "ada", true, time.Minute),
		waiterOf("b", "eve", false, time.Minute),
		waiterOf("b", "bob", true, time.Minute),
		waiterOf("b", "fay", false, time.Minute),
		waiterOf("a", "cy", false, 0),
		waiterOf("d", "dan", true, 0),
	})
	if q.Len() != 6 {
		t.Errorf("%d wait", q.Len())
	}
	var got []string
	for _, row := range QueuedRows([]holdfast.Status{{Resource: "b", Token: 1}, {Resource: "b", Token: 2}, {Resource: "c"}}, q) {
		got = append(got, row[0]+"|"+row[1]+"|"+row[2]+"|"+row[6])
	}
	want := []string{
		"RESOURCE|MODE|OWNER|TOKEN", "a|free||", "  -  a|exclusive|cy|-", "b|exclusive||1", "b|exclusive||2",
		"  1. b|exclusive|ada|-", "  -  b|exclusive|eve|-", "  2. b|exclusive|bob|-", "  -  b|exclusive|fay|-",
		"c|exclusive||-", "d|free||", "  1. d|exclusive|dan|-",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	p := waiterOf("r", "ada", true, time.Minute)
	p.Left, p.Seen = 7*time.Second, p.Asked.Add(3*time.Second)
	if got := placeRow(Waiting{p, 3}); got[0] != "  3. r" || got[8] != "waits since "+p.Since.Format(time.TimeOnly)+", for 1m3s, in turn" {
		t.Errorf("got %q", got)
	}
	if got := placeRow(Waiting{}); got[8] != "waits for an unknown time, in any order" {
		t.Errorf("got %q", got)
	}
}

// A waiter that is late may be gone.
func TestLateRow(t *testing.T) {
	p := waiterOf("r", "ada", true, 0)
	p.Left, p.Seen = 4*time.Second, p.Asked.Add(6*time.Second)
	if got := placeRow(Waiting{p, 1})[8]; !strings.HasSuffix(got, ", in turn, has not asked for 6s") {
		t.Errorf("got %s", got)
	}
}

// Free resources are among the others. A server says of a waiter only that it waits to who
// may only lock.
func TestQueuesJSON(t *testing.T) {
	fair := waiterOf("r", "ada", true, 0)
	fair.Mode, fair.Limit, fair.Since = holdfast.Shared, 3, time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	fair.Asked = fair.Since.Add(1500 * time.Millisecond)
	fair.Seen = fair.Asked.Add(500 * time.Millisecond)
	plain := fair
	plain.Fair = false
	var b strings.Builder
	q := QueuesOf([]holdfast.Place{fair, plain, {Resource: "a"}, {Resource: "r0"}, {Resource: "z"}})
	if err := HoldsJSONLine(&b, []holdfast.Status{{Resource: "r"}, {Resource: "s"}}, q); err != nil {
		t.Fatal(err)
	}
	const (
		ada   = `"lockId":"lock of ada","mode":"shared","limit":3,"owner":"ada","host":"",`
		times = `"since":"2026-11-21T09:30:00Z","asked":"2026-11-21T09:30:01.5Z","ageMs":2000,"askedAgoMs":500,"leftMs":10000}`
		free  = `{"position":null,"lockId":"","mode":"exclusive","limit":null,"owner":"","host":"",` +
			`"fair":false,"since":null,"asked":null,"ageMs":null,"askedAgoMs":null,"leftMs":0}`
	)
	for _, want := range []string{
		`[{"resource":"a","holdId":null,"waiters":[` + free + `]},{"resource":"r","lockId":"",`,
		`,"waiters":[{"position":1,` + ada + `"fair":true,` + times + `,{"position":null,` + ada + `"fair":false,` + times + `]},{"resource":"r0","holdId":null,`,
		`]},{"resource":"s","lockId":"","holdId":"",`,
		`,"waiters":[]},{"resource":"z","holdId":null,"waiters":[{`,
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}
