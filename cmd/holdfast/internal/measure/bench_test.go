package measure

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/cmd/holdfast/internal/output"
)

// samples are some durations in milliseconds.
func samples(ms ...int) *Samples {
	s := new(Samples)
	for _, n := range ms {
		s.Add(time.Duration(n) * time.Millisecond)
	}
	return s
}

var benched = BenchResult{
	Store: "locks.db", Clients: 3, Contend: true, PerSecond: 1.5, Acquire: samples(1, 2, 3), Release: samples(1, 1, 1), Pair: samples(2, 3, 4),
	HandOver: samples(10, 20000),
}

func TestBenchTable(t *testing.T) {
	var b strings.Builder
	check(t, output.Table(&b, benched.Rows()))
	const want = `WHAT                 COUNT  PER SECOND  P50   P90  P99  MAX
acquire and release  3      2           3ms   4ms  4ms  4ms
acquire              3                  2ms   3ms  3ms  3ms
release              3                  1ms   1ms  1ms  1ms
hand-over            2                  10ms  20s  20s  20s
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

func TestBenchJSON(t *testing.T) {
	const want = `{"store":"locks.db","clients":3,"contend":true,"perSecond":1.5,` +
		`"acquireAndRelease":{"count":3,"p50Ms":3,"p90Ms":4,"p99Ms":4,"maxMs":4},` +
		`"acquire":{"count":3,"p50Ms":2,"p90Ms":3,"p99Ms":3,"maxMs":3},` +
		`"release":{"count":3,"p50Ms":1,"p90Ms":1,"p99Ms":1,"maxMs":1},` +
		`"handOver":{"count":2,"p50Ms":10,"p90Ms":20000,"p99Ms":20000,"maxMs":20000}}`
	got, err := json.Marshal(benched)
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
}
