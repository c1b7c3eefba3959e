// Command keep puts the reports of fault campaigns into a result file, from which documents get
// their tables, and one of them into another, from which its time line is drawn.
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
		return fmt.Errorf("a time line is that of one report, not of %d", len(reports))
	case len(runs) == 0:
		return errors.New("there is no report: make faults leaves one for each campaign")
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
