package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// examples returns the bodies of the Example functions in a folder, by name. They are compiled
// and run as tests.
func examples(folder string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		return nil, err
	}
	bodies := make(map[string]string)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, source, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") {
				from, to := set.Position(f.Body.Lbrace).Offset+1, set.Position(f.Body.Rbrace).Offset
				bodies[f.Name.Name] = shownBody(string(source[from:to]))
			}
		}
	}
	return bodies, nil
}

// programs adds the main.go of each program in docs/examples to code, as examples/NAME.
func programs(root string, code map[string]string) error {
	files, err := filepath.Glob(filepath.Join(root, "docs", "examples", "*", "main.go"))
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		code["examples/"+filepath.Base(filepath.Dir(file))] = string(text)
	}
	return nil
}

// shownBody returns the body of an example without its indentation and its output comment.
func shownBody(body string) string {
	for _, comment := range []string{"\t// Output:", "\t// Unordered output:"} {
		body, _, _ = strings.Cut(body, comment)
	}
	var out strings.Builder
	for line := range strings.Lines(strings.Trim(body, "\n")) {
		out.WriteString(strings.TrimPrefix(line, "\t"))
	}
	return strings.TrimRight(out.String(), "\t\n") + "\n"
}
