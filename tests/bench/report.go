package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// report is the outcome of a run and what it ran on.
type report struct {
	Date    string   `json:"date"`
	CPU     string   `json:"cpu"`
	Cores   int      `json:"cores"`
	System  string   `json:"system"`
	Go      string   `json:"go"`
	Results []result `json:"results"`
}

func newReport() *report {
	return &report{
		Date:   time.Now().UTC().Format(time.DateOnly),
		CPU:    processor(),
		Cores:  runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Go:     runtime.Version(),
	}
}

// processor names the CPU where Linux tells it.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func (r *report) passed() bool {
	return !slices.ContainsFunc(r.Results, func(one result) bool { return !one.pass() })
}

func (r *report) rows() [][]string {
	rows := [][]string{{"", "target", "measured", ""}}
	for _, one := range r.Results {
		rows = append(rows, []string{one.What, one.target(), one.measured(), one.verdict()})
	}
	return rows
}

// table is for terminals.
func (r *report) table() string {
	rows := r.rows()
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

func (r *report) keep(file string) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// What document replaces is between one of the first and the next of the last.
const (
	docBegin      = "<!-- make bench writes from here -->\n"
	docServeBegin = "<!-- make bench-serve writes from here -->\n"
	docEnd        = "<!-- to here -->\n"
)

// document puts the results into a Markdown file that has the markers.
func (r *report) document(file, begin string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok1 := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, docEnd)
	if !ok1 || !ok2 {
		return errors.New(file + ": it lacks the lines " + strings.TrimSpace(begin) + " and " + strings.TrimSpace(docEnd))
	}
	return os.WriteFile(file, []byte(before+begin+r.markdown()+docEnd+after), 0o644)
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s: %s, %d cores, %s, %s.\n\n", r.Date, r.CPU, r.Cores, r.System, r.Go)
	for i, row := range r.rows() {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("| --- | --- | --- | --- |\n")
		}
	}
	b.WriteString("\nWhat the figures were made of:\n\n")
	for _, one := range r.Results {
		fmt.Fprintf(&b, "- %s: %s\n", one.What, one.Detail)
	}
	b.WriteString("\n")
	return b.String()
}
