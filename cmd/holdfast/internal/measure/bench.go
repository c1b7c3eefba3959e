package measure

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// Bench measures a store: for half of the time the load of Clients that lock and unlock as
// fast as the store lets them, then HandOvers.
type Bench struct {
	// Open makes each Client.
	Open Open
	// For is how long it takes.
	For time.Duration
	// Clients is how many Clients the load has.
	Clients int
	// Contend makes them lock the same resource instead of one each.
	Contend bool
}

// BenchResult is what a Bench measured.
type BenchResult struct {
	// Took is how long the load took.
	Took time.Duration
	// Acquire, Release and Pair, which is both, have a sample for each lock of the load.
	Acquire, Release, Pair *Samples
	HandOver               *Samples
}

// Run measures until the time is over, ctx ends or a Client fails.
func (b Bench) Run(ctx context.Context) (r BenchResult, err error) {
	prefix := fmt.Sprintf("holdfast bench %s ", driver.NewHoldID())
	if r, err = b.load(ctx, b.For/2, prefix); err != nil {
		return r, err
	}
	r.HandOver, err = HandOvers(ctx, b.Open, prefix+"0", func(_ int64, spent time.Duration) bool {
		return spent < b.For-b.For/2
	})
	return r, err
}

// Rows returns the rows of a table, the titles first.
func (r BenchResult) Rows() [][]string {
	rows := [][]string{{"WHAT", "COUNT", "PER SECOND", "P50", "P90", "P99", "MAX"}}
	for _, row := range []struct {
		what      string
		perSecond string
		samples   *Samples
	}{
		{"acquire and release", strconv.FormatFloat(r.PerSecond(), 'f', 0, 64), r.Pair},
		{"acquire", "", r.Acquire},
		{"release", "", r.Release},
		{"hand-over", "", r.HandOver},
	} {
		cells := []string{row.what, strconv.FormatInt(row.samples.Count(), 10), row.perSecond}
		for _, part := range []float64{0.5, 0.9, 0.99, 1} {
			cells = append(cells, Round(row.samples.Quantile(part)).String())
		}
		rows = append(rows, cells)
	}
	return rows
}

// measured is a result in JSON. Scripts read it: a field may be added, none
// changed.
type measured struct {
	Store     string  `json:"store"`
	Clients   int     `json:"clients"`
	Contend   bool    `json:"contend"`
	PerSecond float64 `json:"perSecond"`
	Pair      *Times  `json:"acquireAndRelease"`
	Acquire   *Times  `json:"acquire"`
	Release   *Times  `json:"release"`
	HandOver  *Times  `json:"handOver"`
}

// JSON returns the result for JSON, with the name of the store.
func (b Bench) JSON(store string, r BenchResult) any {
	perSecond, _ := strconv.ParseFloat(strconv.FormatFloat(r.PerSecond(), 'f', 1, 64), 64)
	return measured{
		Store: store, Clients: b.Clients, Contend: b.Contend, PerSecond: perSecond,
		Pair: TimesOf(r.Pair), Acquire: TimesOf(r.Acquire), Release: TimesOf(r.Release),
		HandOver: TimesOf(r.HandOver),
	}
}
