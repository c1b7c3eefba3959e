package main

import (
	"regexp"
	"strings"
	"text/tabwriter"
)

var (
	tableHead = regexp.MustCompile(`^(RESOURCE|BEGAN)(  +[A-Z]+( [A-Z]+)*)+ *$`)
	column    = regexp.MustCompile(`[^ ]+( [^ ]+)*`)
	// afterTable matches the lines that end a table: a prompt, or a message of holdfast on
	// stderr.
	afterTable = regexp.MustCompile(`^([a-z0-9]*\$|holdfast:) `)
)

// realign applies cell to every cell of the tables in text and aligns the tables again, because
// the width of a column depends on its cells.
func realign(text string, cell func(column, value string) string) string {
	var out strings.Builder
	var head [][]int // the columns: where each begins and where its name ends; nil outside tables
	var names []string
	var table *tabwriter.Writer
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case tableHead.MatchString(line):
			head = column.FindAllStringIndex(line, -1)
			names = column.FindAllString(line, -1)
			table = tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
			writeRow(table, names)
			continue
		case head != nil && (line == "" || afterTable.MatchString(line)):
			table.Flush()
			head = nil
		}
		if head == nil {
			out.WriteString(line + "\n")
			continue
		}
		row := make([]string, len(head))
		for i, value := range cut(line, head) {
			row[i] = cell(names[i], value)
		}
		writeRow(table, row)
	}
	if head != nil {
		table.Flush()
	}
	return trimLines(out.String())
}

// cut splits a row at the columns of the head. Positions are counted in characters.
func cut(line string, head [][]int) []string {
	runes := []rune(line)
	cells := make([]string, len(head))
	for i := range head {
		from, to := min(head[i][0], len(runes)), len(runes)
		if i+1 < len(head) {
			to = min(head[i+1][0], len(runes))
		}
		cells[i] = strings.TrimRight(string(runes[from:to]), " ") // waiters are indented
	}
	return cells
}

func writeRow(table *tabwriter.Writer, row []string) {
	_, _ = table.Write([]byte(strings.Join(row, "\t") + "\n")) // to memory
}

// trimLines removes the spaces at the ends of lines, as editors do.
func trimLines(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
