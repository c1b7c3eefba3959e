// Command keep saves reports of fault campaigns. It puts them as a table into a result file,
// from which lab/figures writes the tables of documents. With -line it saves one report as a
// time line, which lab/figures draws. make faults-kept runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

func main() {
	to := flag.String("to", "", "the result `file`")
	table := flag.String("table", "", "the `name` of its table, whose runs are replaced by the reports")
	line := flag.String("line", "", "write the one report there is to this `file`, and change no table")
	flag.Parse()
	if err := keep(*to, *table, *line, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "keep:", err)
		os.Exit(1)
	}
}

func keep(to, table, line string, reports []string) error {
	var runs []results.Run
	for _, file := range reports {
		var r results.Recorded
		if err := results.Load(file, &r); err != nil {
			return err
		}
		if line != "" && len(reports) == 1 {
			return results.Keep(line, r)
		}
		runs = append(runs, r.Run)
	}
	switch {
	case line != "":
		return fmt.Errorf("-line wants one report, got %d", len(reports))
	case len(runs) == 0:
		return errors.New("no reports: make faults writes one for each campaign")
	}
	var all results.Campaigns
	if err := results.Load(to, &all); err != nil {
		return err
	}
	t, err := all.Table(table)
	if err != nil {
		return err
	}
	t.Runs, t.Faults = runs, nil
	return results.Keep(to, all)
}
