package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

// measureServeBare compares how much longer Lock and Unlock take through holdfast serve than on
// its store with how much longer they take through a bare server: net/http, encoding/json and the
// store, and nothing else. In each round all three take turns.
func measureServeBare(ctx context.Context, dir string) []result {
	binary := buildCommand(ctx, dir)
	store := openServedPostgres(ctx)
	defer finish(store.close)
	served := serve(ctx, binary, dir, store.url, nil)
	defer finish(served.stop)
	bare := startWorker(ctx, "bare-server")
	defer finish(bare.stop)
	check(bare.send(store.url))
	var bareURL string
	check(bare.receive(&bareURL))
	bareStore := must(driver.Open(ctx, bareURL))
	defer finish(bareStore.Close)
	bareLocks := holdfast.New(bareStore, nil)
	defer finish(bareLocks.Close)

	const workers = 1
	// Turns are short: a difference shows other work on the machine far more than a ratio does.
	rates := ratesOfSides(postgresRounds, rateTurn,
		lockers(ctx, workers, servedCaller{locks: store.locks}),
		lockers(ctx, workers, served.callers...),
		lockers(ctx, workers, servedCaller{locks: bareLocks}))
	ours, least := medianLonger(rates[1], rates[0]), medianLonger(rates[2], rates[0])
	if min(ours, least) <= 0 && !small {
		failf("HTTP adds %v and %v to a pair: other work disturbed the measurement", ours, least)
	}
	results := []result{{
		What:  fmt.Sprintf("(holdfast serve − store) per (bare server − store), %s, %s", workersOf(workers), store.name),
		Value: float64(ours) / float64(least),
		Limit: 1.5,
		Detail: fmt.Sprintf("HTTP adds %.3f ms and %.3f ms to a pair of Lock and Unlock: medians of %d rounds in turns, "+
			"with medians of %.0f, %.0f and, on the store, %.0f pairs per second; holdfast serve with auth and audit",
			milliseconds(ours), milliseconds(least), postgresRounds, median(rates[1]), median(rates[2]), median(rates[0])),
	}}
	noteDropped(ctx, results, served)
	return results
}

// workBareServer serves the requests of Lock and Unlock by httplock until it is told to end.
// It trusts every caller, and has no limits and no audit.
func workBareServer(ctx context.Context, p *peer) {
	var storeURL string
	check(p.receive(&storeURL))
	store := must(driver.Open(ctx, storeURL))
	defer finish(store.Close)
	traits := func(w http.ResponseWriter, _ *http.Request) { answer(w, wire.TraitsOf(store.Traits()), nil) }
	acquire := func(ctx context.Context, body wire.AcquireRequest) (wire.Grant, error) {
		q := body.Driver()
		g, err := store.Acquire(ctx, q)
		return wire.GrantOf(q, g), err
	}
	release := func(ctx context.Context, body wire.ReleaseRequest) (a wire.ReleaseAnswer, err error) {
		qs := make([]driver.ReleaseRequest, len(body.Holds))
		for i, item := range body.Holds {
			qs[i] = item.Driver()
		}
		released, err := store.Release(ctx, qs)
		for i, r := range released {
			a.Results = append(a.Results, wire.ReleaseResultOf(body.Holds[i], r))
		}
		return a, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+wire.TraitsPath, traits)
	mux.HandleFunc("POST "+wire.AcquirePath, bareHandler(acquire))
	mux.HandleFunc("POST "+wire.ReleasePath, bareHandler(release))
	listener := must(new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends with Close
	defer finish(server.Close)
	check(p.send("http://" + listener.Addr().String()))
	check(p.receive(new(any)))
}

// bareHandler returns a handler that decodes the body, and encodes what do returns.
func bareHandler[Q, A any](do func(context.Context, Q) (A, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q Q
		var a A
		err := json.NewDecoder(r.Body).Decode(&q)
		if err == nil {
			a, err = do(r.Context(), q)
		}
		answer(w, a, err)
	}
}

// answer writes a, or an error that ends the measurement: after one without a name, the Client
// would ask again for ever.
func answer(w http.ResponseWriter, a any, err error) {
	media, status := wire.JSON, http.StatusOK
	if err != nil {
		refusal := wire.NewRefusal(wire.KindUnusable, err.Error())
		a, media, status = refusal, wire.ProblemJSON, refusal.Status
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set(wire.StoreHeader, "bare")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(a) // the Client notices if the answer is cut
}
