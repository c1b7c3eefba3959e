module github.com/holdfast-go/holdfast/eslock/esurl

go 1.25.0

require (
	github.com/elastic/elastic-transport-go/v8 v8.11.0
	github.com/holdfast-go/holdfast v0.0.0
	go.uber.org/goleak v1.3.0
)

require (
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	go.opentelemetry.io/otel v1.29.0 // indirect
	go.opentelemetry.io/otel/metric v1.29.0 // indirect
	go.opentelemetry.io/otel/trace v1.29.0 // indirect
)

replace github.com/holdfast-go/holdfast => ../../
