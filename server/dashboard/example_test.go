package dashboard_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/server/access"
	"github.com/holdfast-go/holdfast/server/dashboard"
)

// A program shows its locks below a path of its own mux, behind what it has to know its users.
func ExampleNew() {
	store := memlock.New(nil)
	locks := holdfast.New(store, nil)
	defer locks.Close()

	pages, err := dashboard.New(store, &dashboard.Options{
		Name: "jobs",
		Identify: func(r *http.Request) (access.Caller, error) {
			if r.Header.Get("X-User-Role") != "operator" { // which the program sets by itself
				return nil, fmt.Errorf("%w: operators only", access.ErrAnonymous)
			}
			return access.Onlooker(), nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pages.Close()
	mux := http.NewServeMux()
	mux.Handle("/locks/", http.StripPrefix("/locks", http.NewCrossOriginProtection().Handler(pages)))

	err = locks.Do(context.Background(), "nightly", nil, func(ctx context.Context) error {
		for _, role := range []string{"", "operator"} {
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/locks/", nil)
			r.Header.Set("X-User-Role", role)
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			fmt.Println(w.Code)
		}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output:
	// 401
	// 200
}
