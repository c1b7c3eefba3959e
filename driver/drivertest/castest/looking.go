package castest

import (
	"fmt"
	"slices"

	"github.com/holdfast-go/holdfast/driver/cas"
)

var looking = []subtest{
	{"scan", scan},
	{"scan_and_swap", scanAndSwap},
	{"scan_broken_off", scanBrokenOff},
}

// scanned returns the names that a scan yields, each once.
func (b *bench) scanned(q cas.Query) []string {
	b.t.Helper()
	var names []string
	for e, err := range b.Scan(b.t.Context(), q) {
		if err != nil {
			b.t.Fatalf("scan: %v", err)
		}
		if e.Missing || e.Version == 0 || e.Now <= 0 {
			b.t.Errorf("Scan yields %+v", e)
		}
		names = append(names, e.Record.Resource)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// A scan yields the records with holds, or all records, or one.
func scan(b *bench) {
	b.gone("gone")
	b.must(released(b.must(b.granted(b.load("idle"), "a"))))
	b.must(b.granted(b.load("held"), "a"))
	b.must(b.granted(b.must(released(b.must(b.granted(b.load("again"), "a")))), "b"))
	for _, c := range []struct {
		q    cas.Query
		want []string
	}{
		{cas.Query{}, []string{"again", "held"}},
		{cas.Query{Idle: true}, []string{"again", "held", "idle"}},
		{cas.Query{Resource: "held"}, []string{"held"}},
		{cas.Query{Resource: "idle"}, nil},
		{cas.Query{Resource: "idle", Idle: true}, []string{"idle"}},
		{cas.Query{Resource: "gone", Idle: true}, nil},
		{cas.Query{Resource: "never"}, nil},
	} {
		if got := b.scanned(c.q); !slices.Equal(got, c.want) {
			b.t.Errorf("scan %+v yields %q, want %q", c.q, got, c.want)
		}
	}
}

const many = 1200 // more than a page, whatever its size

// Records can be changed and deleted during a scan. Records that exist throughout are
// yielded.
func scanAndSwap(b *bench) {
	left := map[string]bool{}
	for i := range many {
		name := fmt.Sprintf("r%04d", i)
		b.must(b.granted(b.load(name), "a"))
		left[name] = true
	}
	i := 0
	for e, err := range b.Scan(b.t.Context(), cas.Query{Idle: true}) {
		if err != nil {
			b.t.Fatal(err)
		}
		delete(left, e.Record.Resource)
		switch i++; i % 3 {
		case 0:
			b.swap(released(e))
		case 1:
			b.swap(b.deleted(e))
		}
	}
	if len(left) != 0 {
		b.t.Errorf("%d of %d records that existed throughout were not yielded", len(left), many)
	}
	if n := len(b.scanned(cas.Query{})); n != many/3 {
		b.t.Errorf("%d records have holds, want %d", n, many/3)
	}
}

// A scan that is not read to its end delays no other call.
func scanBrokenOff(b *bench) {
	for i := range 10 {
		b.must(b.granted(b.load(fmt.Sprint(i)), "a"))
	}
	for range 20 {
		for _, err := range b.Scan(b.t.Context(), cas.Query{}) {
			if err != nil {
				b.t.Fatal(err)
			}
			break
		}
	}
	b.must(b.granted(b.load("after"), "a"))
	if n := len(b.scanned(cas.Query{})); n != 11 {
		b.t.Errorf("scan yields %d records, want 11", n)
	}
}
