package front_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/front"
)

// A server whose callers have tokens. The handler gets who sent a request by front.CallerOf.
func Example() {
	token, entry, err := access.NewToken("billing")
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "front")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "auth.json")
	if err := os.WriteFile(file, []byte(`{"callers": [`+entry+`]}`), 0o600); err != nil {
		panic(err)
	}

	auth, err := access.OpenFile(file, nil)
	if err != nil {
		panic(err)
	}
	defer auth.Close()
	hello := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := front.CallerOf(r)
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(w, "hello,", caller.Name())
	})
	handler, err := front.Handler(hello, &front.Options{Identify: auth.Identify})
	if err != nil {
		panic(err)
	}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := front.Server(handler, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()

	for _, authorization := range []string{"Bearer " + token, "Bearer wrong"} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "http://"+l.Addr().String()+"/", nil)
		if err != nil {
			panic(err)
		}
		r.Header.Set("Authorization", authorization)
		r.Close = true
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			panic(err)
		}
		answer.Body.Close()
		fmt.Println(answer.Status)
	}
	server.Close()
	<-done
	// Output:
	// 200 OK
	// 401 Unauthorized
}
