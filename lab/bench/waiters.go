package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/memlock"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// measureWaiters counts the calls of the store for handing a resource over among many
// goroutines of one Client.
func measureWaiters(ctx context.Context, dir string) []result {
	var results []result
	for _, kind := range []struct {
		name      string
		open      func(file string) (driver.Store, error)
		handOvers int
	}{
		{"memory", func(string) (driver.Store, error) { return memlock.New(nil), nil }, 20_000},
		{"SQLite", func(file string) (driver.Store, error) { return sqlitelock.Open(ctx, file, nil) }, 5_000},
	} {
		calls := make(map[int]float64)
		for _, waiters := range []int{10, 1000} {
			store := must(kind.open(filepath.Join(dir, fmt.Sprint(waiters))))
			calls[waiters] = callsPerHandOver(ctx, store, waiters, kind.handOvers)
			check(store.Close())
		}
		detail := fmt.Sprintf("%d hand-overs among 10 and among 1,000 goroutines of a Client that lock and unlock one resource: %.2f and %.2f calls each",
			kind.handOvers, calls[10], calls[1000])
		results = append(results, result{
			What:   kind.name + ", 1,000 waiters, store calls per hand-over",
			Value:  calls[1000],
			Limit:  6,
			Detail: detail,
		}, result{
			What:   kind.name + ", 1,000 waiters, the same per that of 10 waiters",
			Value:  calls[1000] / calls[10],
			Limit:  1.1,
			Detail: detail,
		})
	}
	return results
}

// callsPerHandOver lets goroutines lock and unlock one resource. All but the holder wait, so
// each lock is a hand-over.
func callsPerHandOver(ctx context.Context, s driver.Store, goroutines, handOvers int) float64 {
	store := &counted{Store: s}
	client := holdfast.New(store, nil)
	defer finish(client.Close)
	gate := must(client.Lock(ctx, "resource", nil)) // until all wait
	var begun, done atomic.Int64
	outcomes := make(chan error, goroutines)
	for range goroutines {
		go func() {
			begun.Add(1)
			outcomes <- func() error {
				for done.Add(1) <= int64(handOvers) {
					if err := lockAndUnlock(ctx, client, "resource"); err != nil {
						return err
					}
				}
				return nil
			}()
		}()
	}
	check(settled(ctx, store, func() bool { return begun.Load() == int64(goroutines) }))
	before := store.all()
	check(gate.Unlock(ctx))
	for range goroutines {
		check(<-outcomes)
	}
	return float64(store.all()-before) / float64(handOvers)
}
