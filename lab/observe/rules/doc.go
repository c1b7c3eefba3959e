// Package rules checks the alert rules and the dashboard in docs/observe with the packages of
// Prometheus. With the build tag promqltest it also runs the rules on samples (make alerts),
// which takes minutes to compile. It has tests only.
package rules
