package guard

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// The successor reads all of its input, and then its end.
func TestSuccessorInput(t *testing.T) {
	for _, size := range []int{0, 1, 64 << 10, 1 << 20} {
		want := []byte(strings.Repeat("s", size))
		f, err := (&Successor{Input: want}).input()
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		got, err := io.ReadAll(f)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("of %d bytes it reads %d, %v", size, len(got), err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}
