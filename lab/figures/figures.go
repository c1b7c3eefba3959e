package main

import (
	"path/filepath"

	"github.com/holdfast-go/holdfast/lab/internal/results"
)

// drawing describes a figure of points from a result file.
type drawing struct {
	name  string // of the points in the result file, and of the figure's file
	from  string // the result file
	title string
	axis  string
	only  []string // series to show, in this order
}

var drawings = []drawing{
	{
		name: "pairs", from: "performance.json",
		title: "Lock and Unlock, pairs per second of all workers together", axis: "pairs per second",
		only: []string{"Holdfast", "the same statements, bare", "two bare transactions", "two bare upserts", "bsm/redislock", "redsync", "es-distributed-lock"},
	},
	{
		name: "hand-overs", from: "performance.json",
		title: "Hand-over, from before Unlock to the next grant", axis: "milliseconds",
		only: []string{"p50", "p99", "longest"},
	},
	{
		name: "serve", from: "performance-serve.json",
		title: "Lock and Unlock through holdfast serve, pairs per second of all workers together", axis: "pairs per second",
		only: []string{"the store itself", "over HTTP", "over HTTPS", "etcd", "etcd with TLS"},
	},
	{
		name: "serve-hand-overs", from: "performance-serve.json",
		title: "Hand-over through holdfast serve, from before Unlock to the next grant", axis: "milliseconds",
		only: []string{"p50", "p99"},
	},
}

// figures draws all figures.
func figures(docs string) (all []made, err error) {
	for _, d := range drawings {
		var r results.Report
		if err := results.Load(filepath.Join(docs, d.from), &r); err != nil {
			return nil, err
		}
		rows, err := rowsOf(d, r)
		if err != nil {
			return nil, err
		}
		svg, err := dots(d, rows)
		if err != nil {
			return nil, err
		}
		all = append(all, made{"figures/" + d.name + ".svg", svg})
	}
	var recorded results.Recorded
	if err := results.Load(filepath.Join(docs, "faults-line.json"), &recorded); err != nil {
		return nil, err
	}
	svg, err := line(recorded)
	if err != nil {
		return nil, err
	}
	return append(all, made{"figures/faults.svg", svg}), nil
}
