package access_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/server/access"
)

// What `holdfast token` prints goes into the auth file; the token goes to the caller.
func ExampleNewToken() {
	token, entry, err := access.NewToken("billing")
	if err != nil {
		panic(err)
	}
	dir, err := os.MkdirTemp("", "access")
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
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	caller, err := auth.Identify(r)
	if err != nil {
		panic(err)
	}
	fmt.Println(caller.Name(), "may lock:", caller.May(access.Lock, "billing/42")) // the entry has no rules yet
	// Output: billing may lock: false
}
