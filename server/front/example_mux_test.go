package front_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httplock"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/front"
)

// A program has the server and its dashboard in a mux of its own. The fronts are inside
// http.StripPrefix, right around what they protect: other pages of the mux have none.
func Example_mux() {
	store := memlock.New(nil)
	defer store.Close()
	locks, err := server.New(store, &server.Options{Identify: front.CallerOf})
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	pages, err := dashboard.New(store, &dashboard.Options{Name: "jobs"})
	if err != nil {
		panic(err)
	}
	defer pages.Close()

	api, err := front.Handler(locks, &front.Options{Store: locks.StoreID})
	if err != nil {
		panic(err)
	}
	board, err := front.Handler(pages, nil)
	if err != nil {
		panic(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/api/", http.StripPrefix("/api", api))
	mux.Handle("/locks/", http.StripPrefix("/locks", board))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "the program's own page") })

	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	web := front.Server(mux, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = web.Serve(l)
	}()

	base := "http://" + l.Addr().String()
	for _, path := range []string{"/api/healthz", "/locks/", "/"} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+path, nil)
		if err != nil {
			panic(err)
		}
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		answer.Body.Close()
		fmt.Println(path, answer.StatusCode)
	}
	remote, err := httplock.New(base+"/api", nil)
	if err != nil {
		panic(err)
	}
	client := holdfast.New(remote, nil)
	err = client.Do(context.Background(), "nightly", nil, func(context.Context) error {
		fmt.Println("locked through /api")
		return nil
	})
	fmt.Println(errors.Join(err, client.Close(), remote.Close()))
	web.Close()
	<-done
	// Output:
	// /api/healthz 200
	// /locks/ 200
	// / 200
	// locked through /api
	// <nil>
}
