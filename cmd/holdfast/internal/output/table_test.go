package output

import (
	"strings"
	"testing"
)

func TestTableEndsNoLineInSpaces(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, [][]string{{"A", "B", "C"}, {"long cell", "x\ty", ""}}); err != nil {
		t.Fatal(err)
	}
	if got, want := b.String(), "A          B     C\nlong cell  x\\ty\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
