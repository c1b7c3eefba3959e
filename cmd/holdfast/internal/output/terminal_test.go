package output

import "testing"

func TestFit(t *testing.T) {
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 80, "short"},
		{"0123456789", 13, "0123456789"},
		{"0123456789", 12, "012345..."},
		{"日本日本", 11, "日本日本"},
		{"日本日本", 10, "日本..."}, // each is two columns wide
		{"a\x1b[31m\nb", 80, `a\x1b[31m\nb`},
		{"redis://u:secret@host", 80, "redis://***@host"},
		{"anything", 0, ""},
	} {
		if got := Fit(c.text, c.columns); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.columns, got, c.want)
		}
	}
}
