// Package observe tests metrics/otelholdfast and metrics/promholdfast with the real SDKs on
// real stores, the metrics of holdfast serve, and the tables of docs/observe.md. It has tests
// only, and is a module of its own because it requires the packages of Prometheus and
// OpenTelemetry.
package observe
