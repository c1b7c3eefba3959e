package httpfence_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/fence/httpfence"
	"github.com/holdfast-go/holdfast/memlock"
)

// A service for accounts accepts writes only from the present holder of the account's
// lock.
func ExampleHandler() {
	locks := holdfast.New(memlock.New(nil), nil) // the locks of the holders, in any store
	defer locks.Close()
	accounts := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return // the request was overtaken while it was read
		}
		token, _ := httpfence.TokenOf(r.Context())
		fmt.Printf("%s of %s: %s\n", r.Method, token.Resource, text)
	})
	fence, err := httpfence.New(accounts, &httpfence.Options{
		Resource: func(r *http.Request) string { return "account-" + r.PathValue("id") },
		Newest:   new(httpfence.Memory),
		Trust:    httpfence.Held(locks),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/accounts/{id}", fence) // behind what authenticates callers

	// A holder sends its token.
	server := httptest.NewServer(mux)
	defer server.Close()
	transport, err := httpfence.NewTransport(&httpfence.TransportOptions{Origins: []string{server.URL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	service := &http.Client{Transport: transport}
	write := func(ctx context.Context, what string) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPut, server.URL+"/accounts/17", strings.NewReader(what))
		if err != nil {
			return err
		}
		resp, err := service.Do(r)
		if err != nil {
			return err // holdfast.ErrStale, if the lock was lost
		}
		defer resp.Body.Close()
		fmt.Println(resp.Status)
		return nil
	}
	err = locks.Do(context.Background(), "account-17", nil, func(ctx context.Context) error {
		return write(ctx, "100")
	})
	if err != nil {
		fmt.Println(err)
	}

	// Anybody else is refused.
	fmt.Println(ask(mux, http.MethodPut, "/accounts/17").status)
	fmt.Println(ask(mux, http.MethodPut, "/accounts/17", "9007199254740991").status)
	// Output:
	// PUT of account-17: 100
	// 200 OK
	// 428
	// 412
}

// Callers send the tokens of their holds in Do, with a shared client.
func ExampleTransport() {
	var locks *holdfast.Client
	transport, err := httpfence.NewTransport(&httpfence.TransportOptions{Origins: []string{"https://ledger.example.com"}})
	if err != nil {
		log.Fatal(err)
	}
	ledger := &http.Client{Transport: transport}

	settle := func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://ledger.example.com/accounts/17/settle", nil)
		if err != nil {
			return err
		}
		resp, err := ledger.Do(r)
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	err = locks.Do(context.Background(), "account-17", nil, settle)
	if errors.Is(err, holdfast.ErrStale) {
		log.Print("somebody else settles this account by now")
	}
}

// A service with several instances compares the token again in the statement of its
// write, and so refuses requests that were overtaken in another instance.
func ExampleRefuse() {
	var db *sql.DB
	http.HandleFunc("PUT /accounts/{id}", func(w http.ResponseWriter, r *http.Request) { // behind a Handler
		token, _ := httpfence.TokenOf(r.Context())
		result, err := db.ExecContext(r.Context(), `UPDATE accounts SET balance = $1, fence = $2
			WHERE id = $3 AND (fence IS NULL OR fence <= $2)`, r.FormValue("balance"), int64(token.Value), r.PathValue("id"))
		if err != nil {
			http.Error(w, "the outcome is not known", http.StatusInternalServerError)
			return
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			httpfence.Refuse(w, holdfast.ErrStale)
		}
	})
}
