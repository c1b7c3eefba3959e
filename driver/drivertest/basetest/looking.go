package basetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast/driver/base"
)

var looking = []subtest{
	{"scan", scan},
	{"scan_and_update", scanAndUpdate},
	{"scan_broken_off", scanBrokenOff},
	{"due", due},
	{"due_and_delete", dueAndDelete},
}

// scanned returns the names that a scan yields, each once.
func (b *bench) scanned(resource string) []string {
	b.t.Helper()
	var names []string
	for e, err := range b.Scan(b.t.Context(), resource) {
		if err != nil {
			b.t.Fatalf("scan: %v", err)
		}
		if e.Missing || e.Now <= 0 || len(e.Record.Holds) == 0 {
			b.t.Errorf("Scan yields %+v", e)
		}
		names = append(names, e.Record.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// due returns the names that Due yields, each once.
func (b *bench) due(idle time.Duration) []string {
	b.t.Helper()
	var names []string
	for name, err := range b.Due(b.t.Context(), idle) {
		if err != nil {
			b.t.Fatalf("due: %v", err)
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A scan yields the records with holds, or the named record.
func scan(b *bench) {
	b.grant("gone", "a")
	b.drop("gone")
	b.grant("idle", "a")
	b.release("idle")
	b.grant("held", "a")
	b.grant("again", "a")
	b.release("again")
	b.grant("again", "b")
	for resource, want := range map[string][]string{
		"": {"again", "held"}, "held": {"held"}, "idle": nil, "gone": nil, "never": nil,
	} {
		if got := b.scanned(resource); !slices.Equal(got, want) {
			b.t.Errorf("a scan of %q yields %q, want %q", resource, got, want)
		}
	}
}

const many = 1200 // more than a page, whatever its size

// Records can be changed and deleted during a scan. Records that exist throughout are
// yielded.
func scanAndUpdate(b *bench) {
	left := map[string]bool{}
	for i := range many {
		name := fmt.Sprintf("r%04d", i)
		b.grant(name, "a")
		left[name] = true
	}
	i := 0
	for e, err := range b.Scan(b.t.Context(), "") {
		if err != nil {
			b.t.Fatal(err)
		}
		delete(left, e.Record.Resource)
		switch i++; i % 3 {
		case 0:
			b.release(e.Record.Resource)
		case 1:
			b.drop(e.Record.Resource)
		}
	}
	if len(left) != 0 {
		b.t.Errorf("%d of %d records that existed throughout were not yielded", len(left), many)
	}
	if n := len(b.scanned("")); n != many/3 {
		b.t.Errorf("%d records have holds, want %d", n, many/3)
	}
}

// A scan that is not read to its end delays no other call.
func scanBrokenOff(b *bench) {
	for i := range 10 {
		b.grant(fmt.Sprint(i), "a")
	}
	for range 20 {
		for _, err := range b.Scan(b.t.Context(), "") {
			if err != nil {
				b.t.Fatal(err)
			}
			break
		}
		for _, err := range b.Due(b.t.Context(), 0) {
			if err != nil {
				b.t.Fatal(err)
			}
			break
		}
	}
	b.grant("after", "a")
	if n := len(b.scanned("")); n != 11 {
		b.t.Errorf("scan yields %d records, want 11", n)
	}
}

// Due yields resources with holds that no longer block, also beside others, and resources
// that have had no hold for long enough.
func due(b *bench) {
	short := func(resource string) {
		b.update(resource, func(e base.Entry) base.Change {
			return base.Change{Action: base.Put, Record: b.granted(e, "short", time.Millisecond)}
		})
	}
	b.grant("held", "a")
	short("expired")
	b.grant("in part", "a")
	short("in part")
	b.grant("idle", "a")
	b.release("idle")
	end := b.read("idle").Now + 3000 // after the end of all of them, including takeover delays
	for b.read("idle").Now < end {
	}
	for _, c := range []struct {
		idle time.Duration
		want []string
	}{
		{0, []string{"expired", "idle", "in part"}},
		{time.Hour, []string{"expired", "in part"}},
		{0, []string{"expired", "idle", "in part"}}, // it was only read
	} {
		got := b.due(c.idle)
		for _, name := range c.want {
			if !slices.Contains(got, name) {
				b.t.Errorf("due after %v: %q, want %q among them", c.idle, got, name)
			}
		}
	}
	b.grant("idle", "again")
	b.release("expired")
	if got := b.due(0); !slices.Contains(got, "expired") {
		b.t.Errorf("due: %q, want what was just released among them", got)
	}
}

// Records can be deleted while Due yields.
func dueAndDelete(b *bench) {
	for i := range many {
		name := fmt.Sprintf("r%04d", i)
		b.grant(name, "a")
		b.release(name)
	}
	for name, err := range b.Due(b.t.Context(), 0) {
		if err != nil {
			b.t.Fatal(err)
		}
		b.drop(name)
	}
	if got := b.due(0); len(got) != 0 {
		b.t.Errorf("%d records of %d are still due", len(got), many)
	}
}
