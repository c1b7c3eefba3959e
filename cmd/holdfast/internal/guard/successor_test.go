package guard

import (
	"bytes"
	"io"
	"runtime"
	"strings"
	"testing"
)

// The successor reads all of its input, and then its end.
func TestSuccessorInput(t *testing.T) {
	sizes := []int{0, 1, 64 << 10}
	if runtime.GOOS == "linux" {
		sizes = append(sizes, 1<<20)
	}
	for _, size := range sizes {
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
