package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// benchmarks are the result files of measurements, and the commands that write them.
var benchmarks = []struct{ file, writer string }{
	{"performance.json", "make bench"},
	{"performance-serve.json", "make bench-serve"},
	{"performance-dashboard.json", "make bench-dashboard"},
}

// documents returns the documents, with the tables of their result files filled in.
func documents(docs string) ([]made, error) {
	speed, err := os.ReadFile(filepath.Join(docs, "performance.md"))
	if err != nil {
		return nil, err
	}
	text := string(speed)
	for _, b := range benchmarks {
		var r results.Report
		err := results.Load(filepath.Join(docs, b.file), &r)
		table := r.Markdown()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			table = fmt.Sprintf("\nNot measured yet: `%s` does, and writes a table here.\n\n", b.writer)
		case err != nil:
			return nil, err
		}
		if text, err = results.Fill(text, b.writer, table); err != nil {
			return nil, fmt.Errorf("performance.md: %w", err)
		}
	}
	faults, err := os.ReadFile(filepath.Join(docs, "faults.md"))
	if err != nil {
		return nil, err
	}
	var campaigns results.Campaigns
	if err := results.Load(filepath.Join(docs, "faults.json"), &campaigns); err != nil {
		return nil, err
	}
	tables := string(faults)
	for _, t := range campaigns.Tables {
		table, err := t.Markdown()
		if err != nil {
			return nil, err
		}
		if tables, err = results.Fill(tables, "make faults-kept TABLE="+t.Name, table); err != nil {
			return nil, fmt.Errorf("faults.md: %w", err)
		}
	}
	return []made{{"performance.md", []byte(text)}, {"faults.md", []byte(tables)}}, nil
}
