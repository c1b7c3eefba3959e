package meters

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// kind is a type of metric, as Prometheus names it.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram" // of seconds
)

// bounds are those of histograms. They reach from a store in memory to waits.
var bounds = [...]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}

// family is a metric with all its series.
type family struct {
	name, help string
	kind       kind
	labels     []string

	mu     sync.Mutex
	series map[string]*series // by their labels, as they are written
}

// series are the values of a metric that have the same labels.
type series struct {
	value  float64 // of a histogram: the sum
	count  uint64
	counts [len(bounds)]uint64 // of a histogram: how many are at most that long, but longer than the bound before
}

func newFamily(k kind, name, help string, labels ...string) *family {
	return &family{name: name, help: help, kind: k, labels: labels, series: make(map[string]*series)}
}

// add adds to a counter or a gauge.
func (f *family) add(by float64, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at(values).value += by
}

// observe adds a duration to a histogram.
func (f *family) observe(seconds float64, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.at(values)
	s.value += seconds
	s.count++
	if i, _ := slices.BinarySearch(bounds[:], seconds); i < len(bounds) {
		s.counts[i]++
	}
}

// at returns the series with those values of the labels, which are words of this program and
// need no escapes.
func (f *family) at(values []string) *series {
	var room [128]byte
	key := room[:0]
	for i, label := range f.labels {
		if i > 0 {
			key = append(key, ',')
		}
		key = append(append(append(append(key, label...), `="`...), values[i]...), '"')
	}
	s := f.series[string(key)]
	if s == nil {
		s = new(series)
		f.series[string(key)] = s
	}
	return s
}

// write writes the metric in the text format of Prometheus.
func (f *family) write(page *bytes.Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fmt.Fprintf(page, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
	for _, labels := range slices.Sorted(maps.Keys(f.series)) {
		s := f.series[labels]
		if f.kind != histogram {
			writeSample(page, f.name, labels, number(s.value))
			continue
		}
		var below uint64
		for i, bound := range bounds {
			below += s.counts[i]
			writeSample(page, f.name+"_bucket", labels+`,le="`+number(bound)+`"`, strconv.FormatUint(below, 10))
		}
		writeSample(page, f.name+"_bucket", labels+`,le="+Inf"`, strconv.FormatUint(s.count, 10))
		writeSample(page, f.name+"_sum", labels, number(s.value))
		writeSample(page, f.name+"_count", labels, strconv.FormatUint(s.count, 10))
	}
}

func writeSample(page *bytes.Buffer, name, labels, value string) {
	if labels != "" {
		labels = "{" + strings.TrimPrefix(labels, ",") + "}"
	}
	fmt.Fprintf(page, "%s%s %s\n", name, labels, value)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// now writes a metric that is read at this moment.
func now(page *bytes.Buffer, k kind, name, help string, value float64) {
	f := newFamily(k, name, help)
	f.add(value)
	f.write(page)
}
