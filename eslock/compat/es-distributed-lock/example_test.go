package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	lock "github.com/holdfast-go/holdfast/eslock/compat/es-distributed-lock"
)

// client stands for the program's own client, such as elasticsearch.NewDefaultClient().
var client node

type node struct{}

func (node) Perform(req *http.Request) (*http.Response, error) {
	req.URL.Scheme, req.URL.Host = "http", "localhost:9200"
	return http.DefaultClient.Do(req)
}

// A program with es-distributed-lock changes only the import.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l := lock.NewLock(client, "nightly-report")
	if err := l.Acquire(ctx, 30*time.Second); err != nil {
		fmt.Println("not now:", err)
		return
	}
	defer func() {
		if err := l.Release(); err != nil {
			log.Print(err)
		}
	}()
	if err := l.KeepAlive(ctx, 10*time.Second); err != nil {
		log.Print(err)
		return
	}
	for page := range 100 {
		if !l.IsAcquired() {
			fmt.Println("lost it on the way")
			return
		}
		fmt.Println("page", page)
	}
}

// The error says who has the lock, and how long it still lasts.
func ExampleLock_Acquire() {
	err := lock.NewLock(client, "nightly-report").WithOwner("me").Acquire(context.Background(), time.Minute)
	var held *driver.HeldError
	if errors.As(err, &held) {
		for _, h := range held.Holders {
			fmt.Println(h.LockID, "has it for another", h.Left)
		}
	}
}
