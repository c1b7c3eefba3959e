package screen

import (
	"strings"
	"testing"

	"github.com/gdamore/tcell/v3"
	"github.com/gdamore/tcell/v3/vt"
)

func TestPutWithin(t *testing.T) {
	emulator := vt.NewMockTerm(vt.MockOptSize{X: 12, Y: 1})
	s, err := tcell.NewTerminfoScreenFromTty(emulator, tcell.OptNegotiation(false))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	defer s.Fini()
	for _, c := range []struct {
		width int
		text  string
		want  string
	}{
		{4, "abcd", "abcd|"},
		{4, "abcde", "abc…|"},
		{4, "ab", "ab  |"},
		{1, "ab", "…   |"},
		{0, "ab", "    |"},
		{4, "日本", "日本|"},
		{4, "日本語", "日… |"},
		{3, "日本", "日… |"},
		{4, "abc日", "abc…|"},
		{4, "e\u0301e\u0301", "e\u0301e\u0301  |"},
		{4, "", "    |"},
	} {
		s.Clear()
		s.Put(4, 0, "|", tcell.StyleDefault)
		Text(s, 0, 0, c.width, c.text, tcell.StyleDefault)
		var got strings.Builder
		for x := 0; x < 5; {
			text, _, wide := s.Get(x, 0)
			got.WriteString(text)
			x += wide
		}
		if got.String() != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.text, c.width, got.String(), c.want)
		}
	}
}
