//go:build unix

package adapters_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each block of code in docs/adapters.md is from one function of these tests. It has less
// indentation, and "// …" for lines that are left out.
func TestDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/adapters.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	indented := regexp.MustCompile(`(?m)^\t+`)
	var functions []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for function := range strings.SplitSeq(string(text), "\nfunc ") {
			functions = append(functions, indented.ReplaceAllString(function, ""))
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(doc), -1)
	if len(blocks) == 0 {
		t.Error("it shows no code")
	}
	for _, block := range blocks {
		parts := strings.Split(indented.ReplaceAllString(block[1], ""), "// …\n")
		if !slices.ContainsFunc(functions, func(f string) bool { return inOrder(f, parts) }) {
			t.Errorf("this is in no function of lab/adapters:\n%s", block[1])
		}
	}
}

// inOrder reports whether the text contains the parts in this order, each at the start of a line.
func inOrder(text string, parts []string) bool {
	for _, part := range parts {
		_, after, found := strings.Cut(text, "\n"+part)
		if !found {
			return false
		}
		text = "\n" + after
	}
	return true
}
