package httplock_test

import (
	"context"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/httplock"
)

// Programs open the store by its URL. The token of the caller is in HOLDFAST_SERVER_TOKEN
// or in the file that the URL names.
func Example() {
	ctx := context.Background()
	locks, err := holdfast.Open(ctx, "https://locks.example.com?token_file=/etc/holdfast/token", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
	err = locks.Do(ctx, "nightly report", nil, func(ctx context.Context) error {
		return nil // the work, which ends with ctx
	})
	if err != nil {
		log.Print(err)
	}
}

// A program can bring its own dialer, proxy or TLS configuration, and its token.
func ExampleNew() {
	store, err := httplock.New("https://locks.example.com", &httplock.Options{
		Token: "the output of holdfast token",
		Transport: &http.Transport{
			DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	locks := holdfast.New(store, nil)
	defer locks.Close()
}
