package drivertest_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// numbers are the numbers of the scenarios, in order.
func numbers() (all []string) {
	letters := map[int]string{7: "ab", 17: "a", 22: "ab", 25: "ab", 28: "a", 32: "a"}
	for n := 1; n <= 41; n++ {
		all = append(all, strconv.Itoa(n))
		for _, l := range letters[n] {
			all = append(all, strconv.Itoa(n)+string(l))
		}
	}
	return all
}

// TestScenarios compares docs/dev/scenarios.md with the tests.
func TestScenarios(t *testing.T) {
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.work")); err != nil {
		t.Skip("the table names tests of other modules: needs the repository")
	}
	table, err := os.ReadFile(filepath.Join(root, "docs", "dev", "scenarios.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := testsBelow(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range judgeTable(string(table), tests) {
		t.Error("docs/dev/scenarios.md: " + wrong)
	}
}

// place is a test in a folder, such as "driver/drivertest S05_reply_lost".
func place(folder, test string) string { return folder + " " + test }

// subtestName matches the names of subtests in the conformance suites.
var subtestName = regexp.MustCompile(`^[A-Za-z]\w+$`)

// testsBelow finds test functions, and the names in tables of subtests.
func testsBelow(root string) (map[string]bool, error) {
	found := make(map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		if folder = filepath.ToSlash(folder); folder == "." {
			folder = "root"
		}
		for _, name := range testsOf(file, strings.HasSuffix(path, "_test.go")) {
			found[place(folder, name)] = true
		}
		return nil
	})
	return found, err
}

func testsOf(file *ast.File, isTest bool) (names []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if isTest && n.Recv == nil && (strings.HasPrefix(n.Name.Name, "Test") || strings.HasPrefix(n.Name.Name, "Fuzz")) {
				names = append(names, n.Name.Name)
			}
		case *ast.CompositeLit:
			names = append(names, subtestsOf(n)...)
		}
		return true
	})
	return names
}

// subtestsOf returns the names in a []subtest.
func subtestsOf(table *ast.CompositeLit) (names []string) {
	array, ok := table.Type.(*ast.ArrayType)
	if !ok {
		return nil
	}
	if element, ok := array.Elt.(*ast.Ident); !ok || element.Name != "subtest" {
		return nil
	}
	for _, row := range table.Elts {
		if row, ok := row.(*ast.CompositeLit); ok && len(row.Elts) > 0 {
			if lit, ok := row.Elts[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
				names = append(names, strings.Trim(lit.Value, `"`))
			}
		}
	}
	return names
}

// judgeTable returns the faults of the table, given the existing tests.
func judgeTable(doc string, tests map[string]bool) (wrongs []string) {
	wrong := func(format string, args ...any) { wrongs = append(wrongs, fmt.Sprintf(format, args...)) }
	want := numbers()
	var got []string
	for line := range strings.Lines(doc) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		number := strings.TrimSpace(cells[0])
		if !strings.HasPrefix(line, "|") || number == "no." || number == "---" {
			continue
		}
		got = append(got, number)
		if len(cells) != 3 {
			wrong("row %s has %d cells, want 3", number, len(cells))
			continue
		}
		if strings.TrimSpace(cells[1]) == "" {
			wrong("row %s does not say what goes wrong", number)
		}
		if strings.TrimSpace(cells[2]) == "" {
			if !haveTest(number, tests) {
				wrong("row %s has no test, and none is named after it", number)
			}
			continue
		}
		for part := range strings.SplitSeq(cells[2], ";") {
			folder, names, ok := strings.Cut(strings.TrimSpace(part), ": ")
			if names = strings.TrimSpace(names); !ok || names == "" {
				wrong("row %s: %q names neither a test nor a reason", number, part)
				continue
			}
			if folder == "n/a" || folder == "planned" {
				continue
			}
			for name := range strings.SplitSeq(names, ", ") {
				if !subtestName.MatchString(name) || !tests[place(folder, name)] {
					wrong("row %s: there is no test %s in %s", number, name, folder)
				}
			}
		}
	}
	for _, n := range want {
		if !slices.Contains(got, n) {
			wrong("there is no row %s", n)
		}
	}
	if len(wrongs) == 0 && !slices.Equal(got, want) {
		wrong("the rows are %v, want %v", got, want)
	}
	return wrongs
}

// haveTest reports whether a test is named after the scenario, as make scenario finds it.
func haveTest(number string, tests map[string]bool) bool {
	named := regexp.MustCompile(` (Test)?S0*` + regexp.QuoteMeta(number) + `_\w+$`)
	for test := range tests {
		if named.MatchString(test) {
			return true
		}
	}
	return false
}

func TestScenariosAreHeldToTheTree(t *testing.T) {
	tests := map[string]bool{place("root", "TestS01_x"): true, place("driver/drivertest", "S01_x"): true, place("root", "TestS07a_x"): true}
	rows := make(map[string]string)
	for _, n := range numbers() {
		rows[n] = "| " + n + " | something | root: TestS01_x; driver/drivertest: S01_x, S01_x; planned: more |\n"
	}
	table := func(rows map[string]string, order ...string) string {
		text := "# Title\n\nText | with a bar\n\n| no. | what | where |\n| --- | --- | --- |\n"
		for _, n := range order {
			text += rows[n]
		}
		return text
	}
	if wrongs := judgeTable(table(rows, numbers()...), tests); len(wrongs) != 0 {
		t.Fatalf("a correct table has the faults %q", wrongs)
	}
	named := maps.Clone(rows)
	named["1"], named["7a"] = "| 1 | something | |\n", "| 7a | something | |\n"
	if wrongs := judgeTable(table(named, numbers()...), tests); len(wrongs) != 0 {
		t.Errorf("rows with tests of their own numbers have the faults %q", wrongs)
	}
	for name, c := range map[string]struct{ number, row, says string }{
		"no row":             {"7a", "", "no row 7a"},
		"no cell":            {"5", "| 5 | something |\n", "2 cells"},
		"no test":            {"7", "| 7 | something | |\n", "none is named after it"},
		"nothing said":       {"5", "| 5 | | n/a: so it is |\n", "what goes wrong"},
		"no reason":          {"5", "| 5 | something | n/a: |\n", "neither a test nor a reason"},
		"plan without place": {"5", "| 5 | something | planned |\n", "neither a test nor a reason"},
		"no such test":       {"41", "| 41 | something | root: TestS41_x |\n", "no test TestS41_x in root"},
		"another folder":     {"41", "| 41 | something | root: S01_x |\n", "no test S01_x in root"},
		"a phrase":           {"41", "| 41 | something | root: it works |\n", "no test it works"},
		"twice":              {"5", rows["5"] + rows["5"], "the rows are"},
		"unknown number":     {"5", rows["5"] + strings.Replace(rows["5"], "5", "5a", 1), "the rows are"},
	} {
		t.Run(name, func(t *testing.T) {
			spoilt := maps.Clone(rows)
			spoilt[c.number] = c.row
			wrongs := strings.Join(judgeTable(table(spoilt, numbers()...), tests), "; ")
			if !strings.Contains(wrongs, c.says) {
				t.Errorf("judged %q, want %q in it", wrongs, c.says)
			}
		})
	}
}
