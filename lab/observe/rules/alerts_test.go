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
		{"HoldfastRenewalsFail", renewals("0x8 1x20", "0+1x28"), "2m30s", 0},         // a hiccup of a TTL of 30 s
		{"HoldfastRenewalsFail", renewals("0x8 1x20", "0x9 1x19"), "3m15s", 0},       // of 5 min
		{"HoldfastRenewalsFail", renewals("0x8 1x20", "0x28"), "3m15s", 0},           // before a release
		{"HoldfastRenewalsFail", renewals("0x8 1x7 2x12", "0+1x28"), "4m15s", 0},     // two of them
		{"HoldfastRenewalsFail", renewals("0x8 3 5x20", "0+2x7 14x21"), "3m", 0},     // an outage, lost within 28 s
		{"HoldfastRenewalsFail", renewals("0x8 1x20", "0+2x7 14x21"), "4m", 0},       // the same: later
		{"HoldfastRenewalsFail", renewals("0x8 0+1x40", "0 1x48"), "3m", 0},          // an outage: too soon
		{"HoldfastRenewalsFail", renewals("0x8 0+1x40", "0 1x48"), "4m", 1},          // lasts
		{"HoldfastRenewalsFail", renewals("0x8 0+1x8 9x32", "0 1x15 2x33"), "5m", 0}, // is over
		{"HoldfastRenewalsFail", renewals("0x40", "0+1x40"), "4m", 0},
		{"HoldfastAcquiresFail", acquires("unknown", "0x8 1x40", "0+1x48"), "3m", 0},       // a hiccup
		{"HoldfastAcquiresFail", acquires("unknown", "0x8 1x40", "0x48"), "4m30s", 0},      // in calls that are rare
		{"HoldfastAcquiresFail", acquires("unknown", "0x8 0+1x40", "0+1x8 8x40"), "3m", 0}, // an outage: too soon
		{"HoldfastAcquiresFail", acquires("unknown", "0x8 0+1x40", "0+1x8 8x40"), "5m", 1}, // lasts
		{"HoldfastAcquiresFail", acquires("lost", "0x8 0+1x40", "0x48"), "5m", 1},
		{"HoldfastAcquiresFail", acquires("unknown", "0x8 0x2 1x3 2x3 3x3 4x40", "0x48"), "5m", 1}, // a call each minute
		{"HoldfastAcquiresFail", acquires("unknown", "0x8 0+1x12 12x28", "0x20 0+1x28"), "6m", 0},  // is over
		{"HoldfastAcquiresFail", `holdfast_acquires_total{instance="a", outcome="held"} 0+1x40`, "5m", 0},
		{"HoldfastReleasesUnconfirmed", `holdfast_releases_total{instance="a", confirmed="false"} 0x20 1x20`, "9m", 1},
		{"HoldfastReleasesUnconfirmed", `holdfast_releases_total{instance="a", confirmed="true"} 0+1x40`, "9m", 0},
		{"HoldfastStoreSlow", slow("holdfast_attempt_duration_seconds_bucket", "0.005", "2.5"), "15m", 1},
		{"HoldfastStoreSlow", slow("holdfast_attempt_duration_seconds_bucket", "0.005", "0.01"), "15m", 0},
		{"HoldfastWaitsLong", slow("holdfast_wait_duration_seconds_bucket", "5", "300"), "15m", 1},
		{"HoldfastWaitsLong", slow("holdfast_wait_duration_seconds_bucket", "5", "30"), "15m", 0},
		{"HoldfastAlwaysWaiting", `holdfast_waiting{instance="a"} 1x300`, "70m", 1},
		{"HoldfastAlwaysWaiting", `holdfast_waiting{instance="a"} 1x100 0 1x199`, "70m", 0},
		{"HoldfastAlwaysWaiting", `holdfast_waiting{instance="a"} 1x300`, "0s", 0}, // its first scrape
		{"HoldfastAlwaysWaiting", `holdfast_waiting{instance="a"} _x60 1x300`, "70m", 0},
		{"HoldfastAlwaysWaiting", waiting("batch"), "70m", 1},
		{"HoldfastAlwaysWaiting", waiting("leader"), "70m", 0},
		{"HoldfastServerNotReady", `holdfast_server_ready{instance="a"} 1x40`, "5m", 0},
		{"HoldfastServerNotReady", `holdfast_server_ready{instance="a"} 0x40`, "5m", 1},
		{"HoldfastServerStoreReplaced", `holdfast_server_store_replaced{instance="a"} 0x40`, "5m", 0},
		{"HoldfastServerStoreReplaced", `holdfast_server_store_replaced{instance="a"} 0x8 1x20`, "3m", 1},
		{"HoldfastServerStoreFailing", `holdfast_server_store_failing_seconds{instance="a"} 0x8 15 0x20`, "2m15s", 0},
		{"HoldfastServerStoreFailing", `holdfast_server_store_failing_seconds{instance="a"} 0x8 15 30x20`, "2m30s", 1},
		{"HoldfastServerAuditFails", `holdfast_server_audit_ok{instance="a"} 1x40`, "5m", 0},
		{"HoldfastServerAuditFails", `holdfast_server_audit_ok{instance="a"} 1x8 0x20`, "5m", 1},
		{"HoldfastServerAuditDropped", `holdfast_server_audit_dropped_total{instance="a"} 3x40`, "5m", 0},
		{"HoldfastServerAuditDropped", `holdfast_server_audit_dropped_total{instance="a"} 0x8 1x20`, "5m", 1},
		{"HoldfastServerHistoryFails", `holdfast_server_history_ok{instance="a"} 1x40`, "5m", 0},
		{"HoldfastServerHistoryFails", `holdfast_server_history_ok{instance="a"} 1x8 0x20`, "5m", 1},
		{"HoldfastServerAuthFileBroken", `holdfast_server_auth_file_ok{instance="a"} 1x40`, "5m", 0},
		{"HoldfastServerAuthFileBroken", `holdfast_server_auth_file_ok{instance="a"} 1x8 0x20`, "5m", 1},
		{"HoldfastStuck", stuck(1, "5+15x40"), "5m", 1},
		{"HoldfastStuck", stuck(0, "5+15x40"), "5m", 0},
		{"HoldfastStuck", stuck(1, "600+15x40"), "5m", 0}, // nobody looks any more
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

// renewals returns counters of renewals without an answer, and of renewals with one.
func renewals(unknown, renewed string) string {
	return fmt.Sprintf("holdfast_renewals_total{instance=\"a\", outcome=\"unknown\"} %s\n"+
		"  holdfast_renewals_total{instance=\"a\", outcome=\"renewed\"} %s", unknown, renewed)
}

// acquires returns counters of calls that failed, and of calls that got a lock.
func acquires(failed, samples, granted string) string {
	return fmt.Sprintf("holdfast_acquires_total{instance=\"a\", outcome=%q} %s\n"+
		"  holdfast_acquires_total{instance=\"a\", outcome=\"granted\"} %s", failed, samples, granted)
}

// waiting returns gauges of two groups. One of them always has a waiter.
func waiting(group string) string {
	return fmt.Sprintf("holdfast_waiting{instance=\"a\", group=%q} 1x300\n  holdfast_waiting{instance=\"a\", group=\"other\"} 0x300", group)
}

// stuck returns gauges of a last look and its age.
func stuck(n int, age string) string {
	return fmt.Sprintf("holdfast_server_stuck{instance=\"a\"} %dx40\n  holdfast_server_look_age_seconds{instance=\"a\"} %s", n, age)
}

// slow returns the buckets of a histogram: half of the samples are in the first one, and the
// rest in the second.
func slow(name, first, second string) string {
	return fmt.Sprintf("%s{job=\"j\", le=%q} 0+1x80\n  %[1]s{job=\"j\", le=%[3]q} 0+2x80\n  %[1]s{job=\"j\", le=\"+Inf\"} 0+2x80", name, first, second)
}
