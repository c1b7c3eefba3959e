package results

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Campaigns is the result file of fault campaigns.
type Campaigns struct {
	Tables []*Campaign `json:"tables"`
}

// Table returns the table with the name.
func (c *Campaigns) Table(name string) (*Campaign, error) {
	var names []string
	for _, t := range c.Tables {
		if t.Name == name {
			return t, nil
		}
		names = append(names, t.Name)
	}
	return nil, fmt.Errorf("no table of campaigns is called %q; there are: %s", name, strings.Join(names, ", "))
}

// Campaign is a table of runs.
type Campaign struct {
	Name string `json:"name"`
	// Column is a fault whose count has a column of its own; "": none.
	Column string `json:"column,omitempty"`
	// Sum adds to the table the sums, and how often each fault happened.
	Sum  bool  `json:"sum,omitempty"`
	Runs []Run `json:"runs"`
	// Faults are the counts of each fault over all runs, if the runs have none.
	Faults map[string]int `json:"faults,omitempty"`
}

// Run is one campaign.
type Run struct {
	Date       string `json:"date,omitempty"`
	Store      string `json:"store"`
	Hosts      bool   `json:"hosts,omitempty"` // processes and server on three hosts
	Only       string `json:"only,omitempty"`  // the only kind of fault, or ""
	Seed       string `json:"seed"`
	Lasts      string `json:"lasts"` // a duration in Go's format
	Processes  int    `json:"processes"`
	Requests   int    `json:"requests"`
	Unanswered int    `json:"unanswered"`
	Locks      int    `json:"locks"`
	Writes     int    `json:"writes"`
	Faults     int    `json:"faults"`
	Broken     int    `json:"broken"` // number of broken promises
	// Note is a remark about the outcome.
	Note string `json:"note,omitempty"`
	// Named are the counts of each fault, if the run has them.
	Named map[string]int `json:"named,omitempty"`
}

// label returns the run's text for the first column.
func (r Run) label() string {
	switch {
	case r.Hosts:
		return r.Store + ", three hosts"
	case r.Only != "":
		return r.Store + ", nothing else happens"
	}
	return r.Store
}

// Markdown returns the table in Markdown.
func (c *Campaign) Markdown() (string, error) {
	head := []string{"store", "seed", "lasts", "processes", "requests", "without an answer", "locks", "writes", "faults"}
	if c.Column != "" {
		head = append(head, "of them, "+c.Column)
	}
	rows := [][]string{append(head, "broken promises")}
	var sum Run
	row := func(label, seed, lasts string, r Run) []string {
		cells := []string{label, seed, lasts}
		for _, n := range []int{r.Processes, r.Requests, r.Unanswered, r.Locks, r.Writes, r.Faults} {
			cells = append(cells, thousands(n))
		}
		if c.Column != "" {
			cells = append(cells, thousands(r.Named[c.Column]))
		}
		broken := thousands(r.Broken)
		if r.Note != "" {
			broken += ", " + r.Note
		}
		return append(cells, broken)
	}
	often := maps.Clone(c.Faults)
	if often == nil {
		often = make(map[string]int)
	}
	for _, r := range c.Runs {
		lasts, err := time.ParseDuration(r.Lasts)
		if err != nil {
			return "", fmt.Errorf("table %s, seed %s: %w", c.Name, r.Seed, err)
		}
		rows = append(rows, row(r.label(), r.Seed, duration(lasts), r))
		sum.Processes += r.Processes
		sum.Requests += r.Requests
		sum.Unanswered += r.Unanswered
		sum.Locks += r.Locks
		sum.Writes += r.Writes
		sum.Faults += r.Faults
		sum.Broken += r.Broken
		if c.Faults == nil {
			for name, n := range r.Named {
				often[name] += n
			}
		}
	}
	if !c.Sum {
		return "\n" + MarkdownTable(rows) + "\n", nil
	}
	all := 0
	for _, n := range often {
		all += n
	}
	if all != sum.Faults {
		return "", fmt.Errorf("table %s: its runs have %d faults, and those with a name are %d", c.Name, sum.Faults, all)
	}
	rows = append(rows, row("all", "", "", sum))
	return "\n" + MarkdownTable(rows) + "\n" + faultsByName(often) + "\n", nil
}

// faultsByName lists the counts of faults, the most frequent first.
func faultsByName(often map[string]int) string {
	var words []string
	for _, name := range slices.SortedFunc(maps.Keys(often), func(a, b string) int {
		return cmp.Or(cmp.Compare(often[b], often[a]), cmp.Compare(a, b))
	}) {
		words = append(words, fmt.Sprintf("%s (%s)", name, thousands(often[name])))
	}
	return wrap("Of the faults: " + strings.Join(words, ", ") + ".")
}

// wrap breaks a paragraph into lines.
func wrap(paragraph string) string {
	const width = 125
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(paragraph) {
		switch {
		case at == 0:
		case at+1+len(word) > width:
			b.WriteString("\n")
			at = 0
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String() + "\n"
}

// duration formats a duration: seconds up to a minute, then minutes.
func duration(d time.Duration) string {
	if d < time.Minute {
		return strconv.FormatFloat(d.Seconds(), 'g', 3, 64) + " s"
	}
	return strconv.FormatFloat(d.Minutes(), 'g', 3, 64) + " min"
}

// thousands formats a number with commas.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}
