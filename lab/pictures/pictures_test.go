//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pictures of the documents are small, and show nothing of the machine that made them.
func TestPictures(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for name := range pictures {
		svg, err := os.ReadFile(filepath.Join("../../docs/pictures", name+".svg"))
		if err != nil {
			t.Fatal(err)
		}
		if len(svg) > limit {
			t.Errorf("%s: %d bytes, more than %d", name, len(svg), limit)
		}
		for _, secret := range []string{"/tmp", "/home", "/root", "root on", "on " + host + " "} {
			if strings.Contains(string(svg), secret) {
				t.Errorf("%s: shows %q", name, secret)
			}
		}
		if !strings.Contains(string(readme), "docs/pictures/"+name+".svg") {
			t.Errorf("the README does not show %s", name)
		}
	}
}
