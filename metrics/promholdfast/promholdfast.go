// Package promholdfast reports the events of Holdfast's Clients to Prometheus.
//
// docs/observe.md lists the metrics and alerts; docs/observe has alert rules and a dashboard
// for Grafana.
package promholdfast

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/metrics/observe"
)

// Options configure a Collector. A nil *Options and the zero value mean the defaults.
type Options = observe.Options

// Collector is a prometheus.Collector of all Clients that use its Trace. All methods may be
// called concurrently.
type Collector struct {
	observer *observe.Observer
	vectors  map[string]prometheus.Collector // the counters and histograms
	gauges   map[string]*prometheus.Desc
	labels   map[string][]string // by metric
}

// New returns a Collector. A program needs one: register it, and set its Trace in the Options
// of each Client.
func New(opts *Options) *Collector {
	c := &Collector{
		vectors: make(map[string]prometheus.Collector),
		gauges:  make(map[string]*prometheus.Desc),
		labels:  make(map[string][]string),
	}
	for _, m := range observe.Metrics() {
		var labels []string
		if m.Label != "" {
			labels = append(labels, m.Label)
		}
		if opts != nil && opts.Group != nil {
			labels = append(labels, observe.GroupLabel)
		}
		c.labels[m.Name] = labels
		switch name := nameOf(m); m.Kind {
		case observe.Counter:
			c.vectors[m.Name] = prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: m.Help}, labels)
		case observe.Histogram:
			c.vectors[m.Name] = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: m.Help, Buckets: m.Bounds}, labels)
		case observe.Gauge:
			c.gauges[m.Name] = prometheus.NewDesc(name, m.Help, labels, nil)
		}
	}
	c.observer = observe.New(opts, c.record)
	return c
}

// nameOf returns the name of the metric, like OpenTelemetry's exporters for Prometheus.
func nameOf(m observe.Metric) string {
	name := strings.ReplaceAll(m.Name, ".", "_")
	switch {
	case m.Kind == observe.Counter:
		return name + "_total"
	case m.Unit == "s":
		return name + "_seconds"
	}
	return name
}

// Trace returns the Trace for Options.Trace of each Client.
func (c *Collector) Trace() *holdfast.Trace { return c.observer.Trace() }

// valuesOf returns the values of the labels of the sample's metric.
func (c *Collector) valuesOf(s observe.Sample) []string {
	var values []string
	for _, label := range c.labels[s.Metric] {
		if label == observe.GroupLabel {
			values = append(values, s.Group)
		} else {
			values = append(values, s.Label)
		}
	}
	return values
}

func (c *Collector) record(_ context.Context, s observe.Sample) {
	values := c.valuesOf(s)
	switch vector := c.vectors[s.Metric].(type) {
	case *prometheus.CounterVec:
		vector.WithLabelValues(values...).Add(s.Value)
	case *prometheus.HistogramVec:
		vector.WithLabelValues(values...).Observe(s.Value)
	}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.vectors {
		m.Describe(ch)
	}
	for _, desc := range c.gauges {
		ch <- desc
	}
}

// Collect implements prometheus.Collector. It sends nothing to the stores.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.vectors {
		m.Collect(ch)
	}
	for _, s := range c.observer.Gauges() {
		ch <- prometheus.MustNewConstMetric(c.gauges[s.Metric], prometheus.GaugeValue, s.Value, c.valuesOf(s)...)
	}
}
