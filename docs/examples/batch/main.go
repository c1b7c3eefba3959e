// Command batch sends the files of each customer to a service, in order, and removes the
// files that it has sent. Start it on several machines that share the folder: one machine at
// a time works for a customer, and all together work for a few customers at a time.
// Prometheus reads the metrics of the locks from /metrics.
//
//	batch -store postgres://db.example.com/app -customers acme,beta -inbox /srv/inbox -to https://ledger.example.com
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/metrics/promholdfast"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

func main() {
	store := flag.String("store", "sqlite:locks.db", "URL of the store")
	ttl := flag.Duration("ttl", 10*time.Second, "how long a killed process keeps its locks")
	listen := flag.String("listen", "localhost:9464", "address of /metrics")
	customers := flag.String("customers", "acme,beta", "whose files are sent")
	var b batch
	flag.StringVar(&b.inbox, "inbox", "inbox", "folder with a folder for each customer")
	flag.StringVar(&b.to, "to", "http://localhost:8080", "URL of the service, which gets PUT URL/CUSTOMER/FILE")
	flag.IntVar(&b.parallel, "parallel", 4, "of how many customers files are sent at a time, by all machines")
	flag.DurationVar(&b.wait, "wait", time.Minute, "how long to wait for other machines")
	flag.DurationVar(&b.every, "every", time.Minute, "how often to look for files")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := b.run(ctx, *store, *listen, strings.Split(*customers, ","), *ttl)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// run sends files until ctx ends. It finishes the files that it has begun.
func (b *batch) run(ctx context.Context, store, listen string, customers []string, ttl time.Duration) error {
	// A label says what a lock is for, without the name of the customer.
	locks := promholdfast.New(&promholdfast.Options{Group: func(resource string) string {
		group, _, _ := strings.Cut(resource, "/")
		return group
	}})
	prometheus.MustRegister(locks)
	http.Handle("GET /metrics", promhttp.Handler())
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	server := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	defer server.Close() // closed last: its metrics show the end
	log.Printf("metrics on %v", listener.Addr())

	to, err := url.Parse(b.to)
	if err != nil {
		return err
	}
	transport, err := httpfence.NewTransport(&httpfence.TransportOptions{Origins: []string{to.Scheme + "://" + to.Host}})
	if err != nil {
		return err
	}
	b.service = &http.Client{Transport: transport, Timeout: time.Minute}
	b.locks, err = holdfast.Open(ctx, store, &holdfast.Options{TTL: ttl, Trace: locks.Trace()})
	if err != nil {
		return err
	}
	defer b.locks.Close()
	context.AfterFunc(ctx, func() { log.Print("ending after the files that are being sent") })
	var all sync.WaitGroup
	for _, customer := range customers {
		all.Go(func() { b.serve(ctx, customer) })
	}
	all.Wait()
	return nil
}
