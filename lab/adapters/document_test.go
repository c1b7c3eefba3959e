//go:build unix

package adapters_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What docs/adapters.md shows beside the examples is code of these tests.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		code.Write(text)
	}
	// make docs-check compares the examples.
	rest := regexp.MustCompile(`(?s)<!-- example .*?<!-- /example -->`).ReplaceAllString(string(doc), "")
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(rest, -1)
	if len(blocks) == 0 {
		t.Error("it shows no code")
	}
	for _, block := range blocks {
		if !strings.Contains(code.String(), block[1]) {
			t.Errorf("this is in no file of lab/adapters:\n%s", block[1])
		}
	}
}
