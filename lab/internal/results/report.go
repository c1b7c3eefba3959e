package results

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Report is the outcome of a run of the benchmarks and what it ran on.
type Report struct {
	Date    string   `json:"date"`
	CPU     string   `json:"cpu"`
	Cores   int      `json:"cores"`
	System  string   `json:"system"`
	Go      string   `json:"go"`
	Results []Result `json:"results"`
}

// NewReport returns a report of this machine, without results.
func NewReport() *Report {
	return &Report{
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

// Passed reports whether no target was missed.
func (r *Report) Passed() bool {
	return !slices.ContainsFunc(r.Results, func(one Result) bool { return !one.Pass() })
}

func (r *Report) rows() [][]string {
	rows := [][]string{{"", "target", "measured", ""}}
	for _, one := range r.Results {
		rows = append(rows, []string{one.What, one.Target(), one.Measured(), one.Verdict()})
	}
	return rows
}

// Table is for terminals.
func (r *Report) Table() string {
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

// Markdown is the table and what its figures were made of.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\nMeasured on %s: %s, %d cores, %s, %s.\n\n", r.Date, r.CPU, r.Cores, r.System, r.Go)
	b.WriteString(table(r.rows()))
	b.WriteString("\nWhat the figures were made of:\n\n")
	for _, one := range r.Results {
		fmt.Fprintf(&b, "- %s: %s\n", one.What, one.Detail)
	}
	b.WriteString("\n")
	return b.String()
}

// table is a table in Markdown, whose first row is its head.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	return b.String()
}
