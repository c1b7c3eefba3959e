// Package observe turns the events of Holdfast's Clients into samples of a fixed list of
// metrics, for any metrics system. It adds nothing up and exports nothing: package
// otelholdfast does that for OpenTelemetry, and promholdfast for Prometheus.
//
// docs/observe.md describes the metrics and alerts.
package observe

import "slices"

// Kind is the way in which the samples of a metric add up.
type Kind uint8

// The values of Kind.
const (
	// Counter means that the sum of the samples counts.
	Counter Kind = iota
	// Histogram means that the number of samples in each bucket and their sum count.
	Histogram
	// Gauge means that the last sample counts. Observer.Gauges returns these samples.
	Gauge
)

// Metric describes a metric.
type Metric struct {
	// Name has dots, as in OpenTelemetry: "holdfast.attempt.duration". In Prometheus it has
	// underscores and the unit as a suffix.
	Name string
	Kind Kind
	// Unit is "s", "1" for a fraction or, in braces, the counted thing, such as "{hold}".
	Unit string
	Help string
	// Label is the name of its label, and Values has all values of that label. Label is "" if
	// there is none. If resources are grouped, the metric also has the label GroupLabel.
	Label  string
	Values []string
	// Bounds has the upper bounds of a histogram's buckets, in its unit.
	Bounds []float64
}

// GroupLabel is the name of the label for the results of Options.Group.
const GroupLabel = "group"

// The names of the metrics.
const (
	Acquires  = "holdfast.acquires"
	Renewals  = "holdfast.renewals"
	Losses    = "holdfast.losses"
	Releases  = "holdfast.releases"
	Attempt   = "holdfast.attempt.duration"
	Wait      = "holdfast.wait.duration"
	Hold      = "holdfast.hold.duration"
	Held      = "holdfast.held"
	Waiting   = "holdfast.waiting"
	Left      = "holdfast.hold.left"
	LeftRatio = "holdfast.hold.left.ratio"
)

// The values of labels.
const (
	Granted     = "granted"
	IsHeld      = "held"
	Lost        = "lost"
	Unknown     = "unknown"
	Renewed     = "renewed"
	Expired     = "expired"
	Forced      = "forced"
	Unreachable = "unreachable"
)

// Metrics returns all metrics.
func Metrics() []Metric { return slices.Clone(metrics) }

var metrics = []Metric{
	{Name: Acquires, Kind: Counter, Unit: "{acquire}", Label: "outcome", Values: []string{Granted, IsHeld, Lost, Unknown},
		Help: "Calls of Lock, RLock, TryLock and TryRLock that returned."},
	{Name: Renewals, Kind: Counter, Unit: "{renewal}", Label: "outcome", Values: []string{Renewed, Lost, Unknown},
		Help: "Renewals of holds that were answered or given up."},
	{Name: Losses, Kind: Counter, Unit: "{loss}", Label: "cause", Values: []string{Expired, Forced, Unreachable},
		Help: "Holds that were lost before they were released."},
	{Name: Releases, Kind: Counter, Unit: "{release}", Label: "confirmed", Values: []string{"true", "false"},
		Help: "Releases of holds, and whether the store confirmed them."},
	{Name: Attempt, Kind: Histogram, Unit: "s", Label: "outcome", Values: []string{Granted, IsHeld, Unknown},
		Bounds: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10},
		Help:   "Time that the store took to answer an acquire."},
	{Name: Wait, Kind: Histogram, Unit: "s", Label: "outcome", Values: []string{Granted, IsHeld, Lost, Unknown},
		Bounds: []float64{.005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
		Help:   "Time that calls of Lock and RLock waited, of those that had to."},
	{Name: Hold, Kind: Histogram, Unit: "s",
		Bounds: []float64{.01, .1, .5, 1, 5, 15, 30, 60, 300, 900, 3600, 14400, 86400},
		Help:   "Time that locks were held, until their release began or they were lost."},
	{Name: Held, Kind: Gauge, Unit: "{hold}", Help: "Holds that this process has."},
	{Name: Waiting, Kind: Gauge, Unit: "{wait}", Help: "Calls of Lock and RLock in this process that wait."},
	{Name: Left, Kind: Gauge, Unit: "s",
		Help: "Smallest time left until a hold that is kept alive counts as lost, unless it is renewed."},
	{Name: LeftRatio, Kind: Gauge, Unit: "1",
		Help: "Smallest fraction of its TTL that a hold that is kept alive has left."},
}
