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

// Report is the result of a run of the benchmarks, with the machine that it ran on.
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

// processor returns the name of the CPU if Linux knows it.
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

// Table returns the table for terminals.
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

// Replace replaces the results of the measurements that part has, and sorts all results in the
// order of the names of measurements. Both reports must be from the same machine.
func (r *Report) Replace(part *Report, order []string) error {
	if part.CPU != r.CPU || part.Cores != r.Cores || part.System != r.System {
		return fmt.Errorf("the kept results are those of another machine: %s, %d cores, %s", r.CPU, r.Cores, r.System)
	}
	all := slices.Clone(part.Results)
	for i := range all {
		if part.Date != r.Date {
			all[i].Date = part.Date
		}
	}
	for _, one := range r.Results {
		if !slices.ContainsFunc(part.Results, func(p Result) bool { return p.Name == one.Name }) {
			all = append(all, one)
		}
	}
	slices.SortStableFunc(all, func(a, b Result) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
	r.Results = all
	return nil
}

// Machine returns a sentence with the dates and the machine of the measurements.
func (r *Report) Machine() string {
	dates := []string{r.Date}
	for _, one := range r.Results {
		if one.Date != "" && !slices.Contains(dates, one.Date) {
			dates = append(dates, one.Date)
		}
	}
	return fmt.Sprintf("Measured on %s: %s, %d cores, %s, %s.", strings.Join(dates, " and "), r.CPU, r.Cores, r.System, r.Go)
}

// Markdown returns a table of the results with a target, and below it the details of missed
// targets.
func (r *Report) Markdown() string {
	rows := [][]string{{"", "target", "measured"}}
	var missed strings.Builder
	for _, one := range r.Results {
		if one.Figure {
			continue
		}
		measured := one.Measured()
		if !one.Pass() {
			measured = "**" + measured + "**"
			fmt.Fprintf(&missed, "- %s: %s\n", one.What, one.Detail)
		}
		rows = append(rows, []string{one.What, one.Target(), measured})
	}
	text := "\n" + r.Machine() + "\n\n" + MarkdownTable(rows) + "\n"
	if missed.Len() > 0 {
		text += "Missed:\n\n" + missed.String() + "\n"
	}
	return text
}

// MarkdownTable formats a table in Markdown. The first row is its head.
func MarkdownTable(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(&b, "|%s\n", strings.Repeat(" --- |", len(row)))
		}
	}
	return b.String()
}
