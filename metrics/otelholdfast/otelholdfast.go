// Package otelholdfast reports the events of Holdfast's Clients to OpenTelemetry: as spans of
// waits, attempts, holds and releases, and as metrics. It uses only OpenTelemetry's API; the
// program chooses the SDK.
//
// docs/observe.md lists the spans, the metrics and alerts.
package otelholdfast

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/metrics/observe"
)

// scope is the name of the instrumentation.
const scope = "github.com/holdfast-go/holdfast/metrics/otelholdfast"

// Options configure New. A nil *Options and the zero value mean the defaults.
type Options struct {
	// TracerProvider makes the tracer. The default is the global one.
	TracerProvider trace.TracerProvider
	// MeterProvider makes the meter. The default is the global one.
	MeterProvider metric.MeterProvider
	// Group returns the group of a resource, which becomes an attribute of all metrics and
	// spans: see observe.Options. By default no attribute has any part of a resource's name.
	Group func(resource string) string
}

// New returns a Trace for Options.Trace of all Clients of the program. Call it once: two
// Traces of one MeterProvider would report the gauges twice.
//
// Close the Clients before the TracerProvider is shut down: spans are made a little after
// their events, the last of them before Close returns, and a provider that was shut down
// drops them.
func New(opts *Options) (*holdfast.Trace, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	figures, err := newFigures(o.MeterProvider.Meter(scope), o.Group)
	if err != nil {
		return nil, fmt.Errorf("otelholdfast: %w", err)
	}
	// The metrics come last: their ctx has the span, so exemplars refer to it.
	return holdfast.Traces(newSpans(o.TracerProvider.Tracer(scope), o.Group).trace(), figures), nil
}

// newFigures returns a Trace that records with the instruments of the meter.
func newFigures(meter metric.Meter, group func(string) string) (*holdfast.Trace, error) {
	var err error
	counters := make(map[string]metric.Float64Counter)
	histograms := make(map[string]metric.Float64Histogram)
	gauges := make(map[string]metric.Float64ObservableGauge)
	labels := make(map[string]string)
	var observed []metric.Observable
	for _, m := range observe.Metrics() {
		labels[m.Name] = m.Label
		unit, help := metric.WithUnit(m.Unit), metric.WithDescription(m.Help)
		switch m.Kind {
		case observe.Counter:
			counters[m.Name], err = meter.Float64Counter(m.Name, unit, help)
		case observe.Histogram:
			histograms[m.Name], err = meter.Float64Histogram(m.Name, unit, help, metric.WithExplicitBucketBoundaries(m.Bounds...))
		case observe.Gauge:
			gauges[m.Name], err = meter.Float64ObservableGauge(m.Name, unit, help)
			observed = append(observed, gauges[m.Name])
		}
		if err != nil {
			return nil, err
		}
	}
	attributes := func(s observe.Sample) metric.MeasurementOption {
		var set []attribute.KeyValue
		if name := labels[s.Metric]; name != "" {
			set = append(set, attribute.String(name, s.Label))
		}
		if group != nil {
			set = append(set, attribute.String(observe.GroupLabel, s.Group))
		}
		return metric.WithAttributes(set...)
	}
	o := observe.New(&observe.Options{Group: group}, func(ctx context.Context, s observe.Sample) {
		if c, ok := counters[s.Metric]; ok {
			c.Add(ctx, s.Value, attributes(s))
		} else {
			histograms[s.Metric].Record(ctx, s.Value, attributes(s))
		}
	})
	_, err = meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		for _, s := range o.Gauges() {
			to.ObserveFloat64(gauges[s.Metric], s.Value, attributes(s))
		}
		return nil
	}, observed...)
	if err != nil {
		return nil, err
	}
	return o.Trace(), nil
}
