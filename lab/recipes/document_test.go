//go:build linux

package recipes

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var pages = []string{"../../docs/recipes.md", "../../docs/http.md"}

var marked = regexp.MustCompile("(?ms)^<!-- recipe (\\S+) -->\n```(\\w+)\n(.*?)^```$")

// recipe returns the code below a marker of a page.
func recipe(t *testing.T, name string) string {
	t.Helper()
	for _, page := range pages {
		for _, m := range marked.FindAllStringSubmatch(read(t, page), -1) {
			if m[1] == name {
				return m[3]
			}
		}
	}
	t.Fatalf("%v have no recipe %q", pages, name)
	return ""
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryRecipeIsTested(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, file := range files {
		code.WriteString(read(t, file))
	}
	for _, page := range pages {
		markers := strings.Count(read(t, page), "<!-- recipe ")
		recipes := marked.FindAllStringSubmatch(read(t, page), -1)
		if len(recipes) != markers || markers == 0 {
			t.Errorf("%s: %d markers, %d with code", page, markers, len(recipes))
		}
		for _, m := range recipes {
			if !strings.Contains(code.String(), fmt.Sprintf("%q", m[1])) {
				t.Errorf("no test has the recipe %q of %s", m[1], page)
			}
		}
	}
}

// A crontab is for all machines. Without a store, each machine would have its own locks.
func TestCrontabsNameTheirStore(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, page := range append(pages, "../../README.md", "../../cmd/holdfast/cli/root.go") {
		for _, block := range regexp.MustCompile("(?ms)^```\\w*\n.*?^```$|Example: `.*?`").FindAllString(read(t, page), -1) {
			if !regexp.MustCompile(`(?m)^ *([*0-9/,-]+ ){5}`).MatchString(block) {
				continue
			}
			found++
			if !strings.Contains(block, "HOLDFAST_STORE=") && !strings.Contains(block, "--store") {
				t.Errorf("%s: this crontab names no store:\n%s", page, block)
			}
		}
	}
	if found < 3 {
		t.Errorf("%d crontabs; the README, the recipes and the help of the command have some", found)
	}
}
