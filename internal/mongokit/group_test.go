package mongokit

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

func TestGroups(t *testing.T) {
	for _, c := range []struct {
		asked string // resource and lock ID of each
		want  string
		all   int // the number of changes that means that every request was done; -1: none
	}{
		{"", "", 0},
		{"xa", "[xa]", 1},
		{"xa yb", "[xa] [yb]", 2},
		{"xa yb xc", "[xa xc] [yb]", -1},
		{"xa xb xc xd", "[xa xb xc] [xd]", -1},
		{"xa xa", "[xa] [xa]", 2},
		{"xa xb xa xb xc", "[xa xb] [xa xb xc]", -1},
		{"xa ya xb xa yb", "[xa xb] [ya yb] [xa]", -1},
	} {
		var qs []driver.RenewRequest
		for name := range strings.FieldsSeq(c.asked) {
			qs = append(qs, driver.RenewRequest{HoldRef: driver.HoldRef{Resource: name[:1], LockID: name[1:]}})
		}
		g, resources := grouped(qs, renewRef, 3)
		var got []string
		for _, group := range g.each {
			var names []string
			for _, q := range group {
				names = append(names, q.Resource+q.LockID)
			}
			got = append(got, fmt.Sprint(names))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q makes %v, want %s", c.asked, got, c.want)
		}
		for i, q := range qs {
			if !slices.Contains(g.each[g.of[i]], q) || !slices.Contains(resources, q.Resource) {
				t.Errorf("%q: request %d is not in its group %v, or its resource not in %q", c.asked, i, g.each[g.of[i]], resources)
			}
		}
		if n := len(slices.Compact(slices.Sorted(slices.Values(resources)))); n != len(resources) {
			t.Errorf("%q: a resource comes twice in %q", c.asked, resources)
		}
		for changed := 0; changed <= len(g.each); changed++ {
			if g.allChanged(changed) != (changed == c.all) {
				t.Errorf("%q: %d changes mean that all were done: %v", c.asked, changed, g.allChanged(changed))
			}
		}
	}
}
