package cli

import (
	"strings"
	"testing"
)

func TestBar(t *testing.T) {
	for part, want := range map[float64]string{
		0:     "\r   0% |" + strings.Repeat(" ", 40) + "|",
		0.255: "\r  25% |" + strings.Repeat("█", 10) + strings.Repeat(" ", 30) + "|",
		1:     "\r 100% |" + strings.Repeat("█", 40) + "|",
	} {
		var line strings.Builder
		drawBar(&line, part)
		if line.String() != want {
			t.Errorf("%v: %q, want %q", part, line.String(), want)
		}
	}
	// What clears it covers it.
	var bar, blank strings.Builder
	drawBar(&bar, 1)
	clearBar(&blank)
	if b := strings.Trim(blank.String(), "\r"); strings.Trim(b, " ") != "" || len(b) < len([]rune(bar.String()))-1 {
		t.Errorf("%q does not cover %q", blank.String(), bar.String())
	}
}
