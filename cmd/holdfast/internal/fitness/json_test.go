package fitness

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/holdfast-go/holdfast/sqlitelock"
)

// samples are some durations in milliseconds.
func samples(ms ...int) (s Samples) {
	for _, n := range ms {
		s = append(s, time.Duration(n)*time.Millisecond)
	}
	return s
}

func TestCheckJSON(t *testing.T) {
	for name, c := range map[string]struct {
		report Report
		want   string
	}{
		"all": {
			Report{
				Findings: []Finding{{Check: "open", Result: OK, Text: "fine"}},
				Traits:   sqlitelock.Traits(),
				Figures: Figures{
					Pair: samples(1, 2, 3), Renewal: samples(1), HandOver: samples(1000),
					ClockAheadMs: new(-1.23), ClockUncertaintyMs: new(1.0), ShortestTTLMs: new(int64(60000)),
				},
			},
			`{"store":"locks.db","fit":true,"findings":[{"check":"open","result":"ok","text":"fine"}],` +
				`"traits":{"name":"sqlite","reach":"host","serverClock":true,"notifies":true,"queue":true,` +
				`"durable":true,"shared":true,"fencing":"strict","failover":""},` +
				`"figures":{"acquireAndRelease":{"count":3,"p50Ms":2,"p90Ms":3,"p99Ms":3,"maxMs":3},` +
				`"renewal":{"count":1,"p50Ms":1,"p90Ms":1,"p99Ms":1,"maxMs":1},` +
				`"handOver":{"count":1,"p50Ms":1000,"p90Ms":1000,"p99Ms":1000,"maxMs":1000},` +
				`"clockAheadMs":-1.23,"clockUncertaintyMs":1,"shortestTtlMs":60000}}`,
		},
		"nothing": {
			Report{Findings: []Finding{{Check: "open", Result: Fail, Text: "no", Err: errors.New("told apart")}}},
			`{"store":"locks.db","fit":false,"findings":[{"check":"open","result":"fail","text":"no"}],"traits":null,` +
				`"figures":{"acquireAndRelease":null,"renewal":null,"handOver":null,` +
				`"clockAheadMs":null,"clockUncertaintyMs":null,"shortestTtlMs":null}}`,
		},
	} {
		if got, err := json.Marshal(c.report.JSON("locks.db")); err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v", name, got, err)
		}
	}
}
