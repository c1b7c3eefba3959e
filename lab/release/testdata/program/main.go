// Command program takes a lock in a SQLite file, and reports it to Prometheus and
// OpenTelemetry.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/metrics/otelholdfast"
	"github.com/holdfast-go/holdfast/metrics/promholdfast"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

func main() {
	ctx := context.Background()
	metrics := promholdfast.New(nil)
	prometheus.MustRegister(metrics)
	spans, err := otelholdfast.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	client, err := holdfast.Open(ctx, "sqlite:locks.db", &holdfast.Options{Trace: holdfast.Traces(spans, metrics.Trace())})
	if err != nil {
		log.Fatal(err)
	}
	hold, err := client.Lock(ctx, "nightly-report", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held with token", hold.Token())
	if err := hold.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
}
