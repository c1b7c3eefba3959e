// Command leader is an HTTP service of which one instance works at a time. The other
// instances answer 503, so a load balancer that checks /ready sends requests only to the
// leader.
//
//	leader -store postgres://db.example.com/app -listen :8080
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/adapt"
	_ "github.com/holdfast-go/holdfast/pglock"
	_ "github.com/holdfast-go/holdfast/sqlitelock"
)

func main() {
	store := flag.String("store", "sqlite:locks.db", "URL of the store")
	ttl := flag.Duration("ttl", 10*time.Second, "how long a killed leader keeps the lock")
	listen := flag.String("listen", "localhost:8080", "address of the service")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *store, *listen, *ttl)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Fatal(err)
	}
}

func run(ctx context.Context, store, listen string, ttl time.Duration) error {
	client, err := holdfast.Open(ctx, store, &holdfast.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer client.Close()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	s := new(service)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ready", s.asLeader(func(http.ResponseWriter, *http.Request) {}))
	mux.HandleFunc("POST /orders", s.asLeader(order))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Fatal(err)
		}
	}()
	defer server.Close()
	log.Printf("listening on %v", listener.Addr())
	return adapt.Lead(ctx, client, "orders/leader", nil, s.lead)
}

// service is the state of one instance.
type service struct{ hold atomic.Pointer[holdfast.Hold] }

// lead is the work of the leader.
func (s *service) lead(ctx context.Context) error {
	log.Print("leading")
	s.hold.Store(holdfast.HoldOf(ctx))
	<-ctx.Done()
	s.hold.Store(nil)
	log.Printf("no longer leading: %v", context.Cause(ctx))
	return nil
}

// asLeader calls the handler only on the leader. The ctx of the request ends when this
// instance no longer leads.
func (s *service) asLeader(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		hold := s.hold.Load()
		if hold == nil || hold.Left() == 0 {
			http.Error(w, "another instance leads", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := hold.Bind(r.Context())
		defer cancel()
		handle(w, r.WithContext(ctx))
	}
}

// order works with the ctx of r, and sends the token with each write.
func order(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "ordered, with token %d\n", holdfast.HoldOf(r.Context()).Token())
}
