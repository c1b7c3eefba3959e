package access_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/server/access"
)

// What `holdfast token` prints goes into the auth file; the token goes to the caller.
func ExampleNewToken() {
	_, entry, err := access.NewToken("billing")
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
	fmt.Println(auth.Err())
	// Output: <nil>
}
