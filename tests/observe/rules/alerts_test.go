//go:build promqltest

package rules_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/promqltest"
)

// Each alert fires when it should, and only then. Samples are 15 s apart.
func TestAlerts(t *testing.T) {
	rules := alerts(t)
	tested := make(map[string]bool)
	for _, test := range []struct {
		alert, series string
		at            string
		fires         int
	}{
		{"HoldfastLockAboutToBeLost", `holdfast_hold_left_ratio{instance="a"} 0.93 0.61 0.9`, "30s", 0},
		{"HoldfastLockAboutToBeLost", `holdfast_hold_left_ratio{instance="a"} 0.93 0.61 0.4`, "30s", 1},
		{"HoldfastLockLost", `holdfast_losses_total{instance="a", cause="expired"} 0x40`, "9m", 0},
		{"HoldfastLockLost", `holdfast_losses_total{instance="a", cause="expired"} 0x20 1x20`, "9m", 1},
		{"HoldfastLockLost", `holdfast_losses_total{instance="a", cause="forced"} 0x20 1x20`, "9m", 0},
		{"HoldfastLockForced", `holdfast_losses_total{instance="a", cause="forced"} 0x20 1x20`, "9m", 1},
		{"HoldfastLockForced", `holdfast_losses_total{instance="a", cause="expired"} 0x20 1x20`, "9m", 0},
		{"HoldfastRenewalsFail", `holdfast_renewals_total{instance="a", outcome="unknown"} 0x10 3x10`, "4m", 1},
		{"HoldfastRenewalsFail", `holdfast_renewals_total{instance="a", outcome="renewed"} 0+1x20`, "4m", 0},
		{"HoldfastAcquiresFail", `holdfast_acquires_total{instance="a", outcome="unknown"} 0x10 3x10`, "4m", 1},
		{"HoldfastAcquiresFail", `holdfast_acquires_total{instance="a", outcome="lost"} 0x10 3x10`, "4m", 1},
		{"HoldfastAcquiresFail", `holdfast_acquires_total{instance="a", outcome="held"} 0+1x20`, "4m", 0},
		{"HoldfastReleasesUnconfirmed", `holdfast_releases_total{instance="a", confirmed="false"} 0x20 1x20`, "9m", 1},
		{"HoldfastReleasesUnconfirmed", `holdfast_releases_total{instance="a", confirmed="true"} 0+1x40`, "9m", 0},
		{"HoldfastStoreSlow", slow("holdfast_attempt_duration_seconds_bucket", "0.005", "2.5"), "15m", 1},
		{"HoldfastStoreSlow", slow("holdfast_attempt_duration_seconds_bucket", "0.005", "0.01"), "15m", 0},
		{"HoldfastWaitsLong", slow("holdfast_wait_duration_seconds_bucket", "5", "300"), "15m", 1},
		{"HoldfastWaitsLong", slow("holdfast_wait_duration_seconds_bucket", "5", "30"), "15m", 0},
		{"HoldfastAlwaysWaiting", `holdfast_waiting{instance="a"} 1x300`, "70m", 1},
		{"HoldfastAlwaysWaiting", `holdfast_waiting{instance="a"} 1x100 0 1x199`, "70m", 0},
	} {
		tested[test.alert] = true
		t.Run(fmt.Sprintf("%s/%d", test.alert, test.fires), func(t *testing.T) {
			rule, ok := rules[test.alert]
			if !ok {
				t.Fatal("there is no such alert")
			}
			script := fmt.Sprintf("load 15s\n  %s\n\neval instant at %s count(%s) or vector(0)\n  {} %d\n",
				test.series, test.at, strings.Join(strings.Fields(rule.Expr), " "), test.fires)
			promqltest.RunTest(t, script, promqltest.NewTestEngine(t, false, 0, 1_000_000))
		})
	}
	for name := range rules {
		if !tested[name] {
			t.Errorf("alert %s is not tested", name)
		}
	}
}

// slow are the buckets of a histogram: half of the samples are in the first, and the rest in
// the second.
func slow(name, first, second string) string {
	return fmt.Sprintf("%s{job=\"j\", le=%q} 0+1x80\n  %[1]s{job=\"j\", le=%[3]q} 0+2x80\n  %[1]s{job=\"j\", le=\"+Inf\"} 0+2x80", name, first, second)
}
