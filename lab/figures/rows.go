package main

import (
	"fmt"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// row is a row of a figure, with a value for each of its series.
type row struct {
	name   string
	values map[string]float64
}

// rowsOf collects the points of a drawing, in the order of the result file. A peer that was
// measured beside several others has several points: the first one counts.
func rowsOf(d drawing, r results.Report) (rows []row, err error) {
	at := make(map[string]int)
	for _, one := range r.Results {
		for _, p := range one.Points {
			if p.Drawing != d.name {
				continue
			}
			if p.Value <= 0 {
				return nil, fmt.Errorf("%s: %s, %s is %v: the axis is logarithmic", d.from, p.Row, p.Series, p.Value)
			}
			i, ok := at[p.Row]
			if !ok {
				i = len(rows)
				at[p.Row] = i
				rows = append(rows, row{p.Row, make(map[string]float64)})
			}
			if _, ok := rows[i].values[p.Series]; !ok {
				rows[i].values[p.Series] = p.Value
			}
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s has no points for the figure %s", d.from, d.name)
	}
	return rows, nil
}
