package referee

import (
	"strings"
	"testing"

	"github.com/holdfast-go/holdfast/driver"
)

// The referee detects faults. Otherwise its silence would mean nothing.
func TestReferee(t *testing.T) {
	const x, s = driver.Exclusive, driver.Shared
	yes, no := func() bool { return true }, func() bool { return false }
	for name, c := range map[string]struct {
		limit int
		play  func(*Referee)
		fault string
	}{
		"one after the other": {0, func(r *Referee) { r.Enter("a", x, 0); r.Leave("a"); r.Enter("b", x, 0); r.Leave("b") }, ""},
		"two exclusive":       {0, func(r *Referee) { r.Enter("a", x, 0); r.Enter("b", x, 0) }, "overlap: b is granted it (exclusive) while a"},
		"shared beside one":   {0, func(r *Referee) { r.Enter("a", x, 0); r.Enter("b", s, 0) }, "overlap: b"},
		"exclusive beside":    {0, func(r *Referee) { r.Enter("a", s, 0); r.Enter("b", x, 0) }, "overlap: b"},
		"shared":              {0, func(r *Referee) { r.Enter("a", s, 0); r.Enter("b", s, 0); r.Enter("c", s, 0) }, ""},
		"within the limit":    {2, func(r *Referee) { r.Enter("a", s, 0); r.Enter("b", s, 0); r.Leave("a"); r.Enter("c", s, 0) }, ""},
		"above the limit":     {2, func(r *Referee) { r.Enter("a", s, 0); r.Enter("b", s, 0); r.Enter("c", s, 0) }, "2 share it already"},
		"still held":          {0, func(r *Referee) { r.EnterWhile("a", x, 0, yes); r.Enter("b", x, 0) }, "overlap: b"},
		"held no longer":      {0, func(r *Referee) { r.EnterWhile("a", x, 0, no); r.Enter("b", x, 0) }, ""},
		"tokens": {0, func(r *Referee) {
			r.Enter("a", s, 7)
			r.Enter("b", s, 6)
			r.Leave("a")
			r.Leave("b")
			r.Enter("c", x, 8)
		}, ""},
		"a token twice": {0, func(r *Referee) { r.Enter("a", s, 7); r.Enter("b", s, 7) }, "token 7 of b"},
		"a lower token": {0, func(r *Referee) { r.Enter("a", x, 7); r.Leave("a"); r.Enter("b", x, 6) }, "token 6 of b"},
	} {
		t.Run(name, func(t *testing.T) {
			r := New(c.limit)
			c.play(r)
			all := strings.Join(r.Faults(), "\n")
			if (c.fault == "") != (all == "") || !strings.Contains(all, c.fault) {
				t.Errorf("faults %q, want %q", all, c.fault)
			}
		})
	}
}
