package historyfile_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server"
	"github.com/holdfast-go/holdfast/server/dashboard"
	"github.com/holdfast-go/holdfast/server/history/historyfile"
	"github.com/holdfast-go/holdfast/server/sight"
)

// A program that serves locks itself keeps a history, by the looks that its dashboard has, too.
// Before a network can reach them, both get a front: see the examples of package front.
func Example() {
	ctx := context.Background()
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	store := memlock.New(nil)
	defer store.Close()

	log, err := historyfile.Open(ctx, filepath.Join(folder, "history.db"), nil)
	if err != nil {
		panic(err)
	}
	looker := sight.New(store, &sight.Options{Skip: server.Reserved})
	defer looker.Close()
	log.Follow(looker)
	defer log.Close() // before the Looker, and after the server

	locks, err := server.New(store, &server.Options{History: log})
	if err != nil {
		panic(err)
	}
	defer locks.Close()
	pages, err := dashboard.New(store, &dashboard.Options{Looker: looker, History: log})
	if err != nil {
		panic(err)
	}
	defer pages.Close()

	answer := httptest.NewRecorder()
	locks.ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/history?resource=nightly", nil))
	fmt.Println(answer.Code, log.State().Dropped, "changes are missing")
	// Output: 200 0 changes are missing
}
