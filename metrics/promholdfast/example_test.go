package promholdfast_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/metrics/promholdfast"
)

func Example() {
	ctx := context.Background()
	locks := promholdfast.New(nil)
	prometheus.MustRegister(locks)
	http.Handle("/metrics", promhttp.Handler())

	client := holdfast.New(memlock.New(nil), &holdfast.Options{Trace: locks.Trace()})
	defer client.Close()
	err := client.Do(ctx, "nightly-report", nil, func(context.Context) error {
		page := httptest.NewRecorder()
		promhttp.Handler().ServeHTTP(page, httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", nil))
		for line := range strings.Lines(page.Body.String()) {
			if strings.HasPrefix(line, "holdfast_held") {
				fmt.Print(line)
			}
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: holdfast_held 1
}

// One group for all jobs, whose names have numbers, and one group for each other lock.
func ExampleOptions() {
	locks := promholdfast.New(&promholdfast.Options{Group: func(resource string) string {
		group, _, _ := strings.Cut(resource, "/")
		return group
	}})
	prometheus.NewRegistry().MustRegister(locks)
	client := holdfast.New(memlock.New(nil), &holdfast.Options{Trace: locks.Trace()})
	defer client.Close()
}
