package observe_test

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/holdfast-go/holdfast/lab/observe/scenario"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/observe"
	"github.com/holdfast-go/holdfast/metrics/otelholdfast"
)

// OpenTelemetry's exporter for Prometheus gives all metrics the same names as promholdfast: the
// rules and the dashboard work with both.
func TestOpenTelemetryToPrometheus(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutTargetInfo())
			if err != nil {
				t.Fatal(err)
			}
			provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
			defer func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) }()
			trace, err := otelholdfast.New(&otelholdfast.Options{MeterProvider: provider, TracerProvider: noop.NewTracerProvider()})
			if err != nil {
				t.Fatal(err)
			}
			scenario.Run(t, store, trace, func() { check(t, values(scrape(t, registry))) })
		})
	}
}

// The instruments have the names, kinds, units and buckets that package observe lists.
func TestInstruments(t *testing.T) {
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	defer func() { _ = provider.Shutdown(context.WithoutCancel(t.Context())) }()
	trace, err := otelholdfast.New(&otelholdfast.Options{MeterProvider: provider, TracerProvider: noop.NewTracerProvider()})
	if err != nil {
		t.Fatal(err)
	}
	scenario.Run(t, memlock.New(nil), trace, func() {
		var all metricdata.ResourceMetrics
		if err := reader.Collect(t.Context(), &all); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]metricdata.Metrics)
		for _, m := range all.ScopeMetrics[0].Metrics {
			got[m.Name] = m
		}
		for _, want := range observe.Metrics() {
			m, ok := got[want.Name]
			if !ok || m.Unit != want.Unit || m.Description != want.Help {
				t.Errorf("%s: %+v", want.Name, m)
				continue
			}
			kind, bounds := kindOf(m)
			if kind != want.Kind || len(bounds) != len(want.Bounds) {
				t.Errorf("%s: kind %v, bounds %v", want.Name, kind, bounds)
			}
		}
		if len(got) != len(observe.Metrics()) || len(all.ScopeMetrics) != 1 {
			t.Errorf("%d metrics in %d scopes", len(got), len(all.ScopeMetrics))
		}
	})
}

func kindOf(m metricdata.Metrics) (kind observe.Kind, bounds []float64) {
	switch data := m.Data.(type) {
	case metricdata.Sum[float64]:
		if data.IsMonotonic {
			return observe.Counter, nil
		}
	case metricdata.Histogram[float64]:
		return observe.Histogram, data.DataPoints[0].Bounds
	case metricdata.Gauge[float64]:
		return observe.Gauge, nil
	}
	return 99, nil
}

// Without Options, the global providers are used. They do nothing unless the program has set
// them.
func TestGlobalProviders(t *testing.T) {
	trace, err := otelholdfast.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	scenario.Run(t, memlock.New(nil), trace, func() {})
}
