package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	serveHandOvers = 200
	// handOverWait is the shortest wait of a caller before its turn, and half of the longest:
	// its subscription is in effect by then.
	handOverWait = 20 * time.Millisecond
)

// waiter waits for a resource, releases it, and returns when it was granted.
type waiter func(ctx context.Context, resource string) (granted time.Time, err error)

// measureServeHandOver compares the time from an unlock to the next grant for three kinds of
// waiters: Clients of the store, Clients of a server, and callers of the API that let the
// server wait. The lock's holder is of the same kind.
func measureServeHandOver(ctx context.Context, dir string) []result {
	return withServers(ctx, dir, func(store *servedStore, s *servedTwice) []result {
		var names []string
		took := make([][]time.Duration, 1+2*2) // the store's first
		sides := []func(bool){handOversTo(ctx, store.locks, clientWaiter(store.store), &took[0])}
		for _, server := range []*served{s.plain, s.secure} {
			caller := server.callers[0]
			names = append(names, server.scheme()+" to a Client", server.scheme()+" to a request that waits")
			sides = append(sides,
				handOversTo(ctx, caller.locks, clientWaiter(caller.store), &took[len(sides)]),
				handOversTo(ctx, caller.locks, server.apiWaiter(caller), &took[len(sides)+1]))
		}
		inTurns(serveHandOvers, sides...)
		var results []result
		for i, name := range names {
			those := took[i+1]
			results = append(results, result{
				What:  fmt.Sprintf("%s, hand-over over %s, p50 longer than the store's own", store.name, name),
				Value: milliseconds(median(those) - median(took[0])), Unit: "ms", Limit: 2,
				Detail: fmt.Sprintf("%d hand-overs each in turns, from before Unlock to the grant: p50 %.2f ms and %.2f ms, p99 %.1f ms and %.1f ms",
					serveHandOvers, milliseconds(median(those)), milliseconds(median(took[0])),
					milliseconds(quantile(those, 0.99)), milliseconds(quantile(took[0], 0.99))),
				Points: slices.Concat(
					timePoints("serve-hand-overs", store.name+" itself", took[0]),
					timePoints("serve-hand-overs", store.name+", "+name, those)),
			})
		}
		return results
	})
}

// handOversTo hands a resource over to a waiter.
func handOversTo(ctx context.Context, holder *holdfast.Client, waits waiter, took *[]time.Duration) func(bool) {
	const resource = "handed over"
	type grant struct {
		at  time.Time
		err error
	}
	return func(counts bool) {
		h := must(holder.Lock(ctx, resource, nil))
		granted := make(chan grant, 1)
		go func() {
			at, err := waits(ctx, resource)
			granted <- grant{at, err}
		}()
		select {
		case g := <-granted:
			failf("granted what is held, at %v (%w)", g.at, g.err)
		case <-time.After(handOverWait + rand.N(handOverWait)):
		}
		start := time.Now()
		check(h.Unlock(ctx))
		g := <-granted
		check(g.err)
		if counts {
			*took = append(*took, g.at.Sub(start))
		}
	}
}

// clientWaiter waits with a Client.
func clientWaiter(store driver.Store) waiter {
	return func(ctx context.Context, resource string) (granted time.Time, err error) {
		client := holdfast.New(store, nil)
		defer func() { err = errors.Join(err, client.Close()) }()
		h, err := client.Lock(ctx, resource, nil)
		if err != nil {
			return time.Time{}, err
		}
		granted = time.Now()
		return granted, h.Unlock(ctx)
	}
}

// apiWaiter waits like a program in another language: with one request that is answered when
// the lock is granted.
func (s *served) apiWaiter(caller servedCaller) waiter {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: s.trusting}}
	return func(ctx context.Context, resource string) (granted time.Time, err error) {
		id := driver.NewHoldID()
		body, err := json.Marshal(wire.AcquireRequest{Resource: resource, HoldID: id, WaitMs: 20_000})
		if err != nil {
			return time.Time{}, err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+wire.AcquirePath, bytes.NewReader(body))
		if err != nil {
			return time.Time{}, err
		}
		req.Header.Set("Content-Type", wire.JSON)
		req.Header.Set("Authorization", "Bearer "+caller.token)
		res, err := client.Do(req)
		if err != nil {
			return time.Time{}, err
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			return time.Time{}, err
		}
		granted = time.Now()
		if res.StatusCode != http.StatusOK {
			return time.Time{}, fmt.Errorf("%s: %s", res.Status, answer)
		}
		released, err := caller.store.Release(ctx, []driver.ReleaseRequest{{HoldRef: driver.HoldRef{Resource: resource, LockID: wire.LockIDOf(id), HoldID: id}}})
		if err == nil && !released[0].Found {
			err = errors.Join(released[0].Err, errors.New("what was granted was not there"))
		}
		return granted, err
	}
}
