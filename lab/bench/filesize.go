package main

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

const (
	fewResources  = 10
	manyResources = 1_000_000
	// heldEvery: every heldEvery-th resource is held.
	heldEvery = 10
)

// measureFileSize compares the time to acquire a random resource in a file with few resources
// and in a file with many.
func measureFileSize(ctx context.Context, dir string) []result {
	var clients [2]*holdfast.Client
	var took [2][]time.Duration
	sizes := [2]int{fewResources, scaled(manyResources)}
	for i, size := range sizes {
		file := filepath.Join(dir, fmt.Sprint(size))
		fill(ctx, file, size)
		store := must(sqlitelock.Open(ctx, file, nil))
		defer finish(store.Close)
		clients[i] = holdfast.New(store, nil)
		defer finish(clients[i].Close)
	}
	acquire := func(i int) func(bool) {
		return func(counts bool) {
			n := rand.N(sizes[i]/heldEvery)*heldEvery + 1 + rand.N(heldEvery-1) // a free resource
			start := time.Now()
			h := must(clients[i].TryLock(ctx, resourceName(n), nil))
			if counts {
				took[i] = append(took[i], time.Since(start))
			}
			check(h.Unlock(ctx))
		}
	}
	const rounds = 10_000
	inTurns(rounds, acquire(0), acquire(1))
	few, many := median(took[0]), median(took[1])
	return []result{{
		What:  "SQLite, acquire among 1,000,000 resources per acquire among 10",
		Value: float64(many) / float64(few),
		Limit: 1.5,
		Detail: fmt.Sprintf("medians of %d in turns: %.0f µs and %.0f µs; p99 %.0f µs and %.0f µs; resources at random, one in %d of the file held; the file filled by SQL with copies of rows that sqlitelock wrote",
			rounds, microseconds(many), microseconds(few),
			microseconds(quantile(took[1], 0.99)), microseconds(quantile(took[0], 0.99)), heldEvery),
	}}
}

func resourceName(n int) string { return fmt.Sprintf("resource-%07d", n) }

// fill creates a file with size resources. Those with a number divisible by heldEvery are held.
// The first one is locked, and the second one locked and unlocked, through the store; the other
// rows are copies of these.
func fill(ctx context.Context, file string, size int) {
	store := must(sqlitelock.Open(ctx, file, nil))
	defer finish(store.Close)
	client := holdfast.New(store, &holdfast.Options{LeaveHolds: true, TTL: time.Hour})
	defer finish(client.Close)
	must(client.Lock(ctx, resourceName(0), nil))
	check(lockAndUnlock(ctx, client, resourceName(1)))
	db := must(sql.Open("sqlite", file))
	defer finish(db.Close)
	var columns string // without the name
	check(db.QueryRowContext(ctx,
		`SELECT group_concat(name, ', ') FROM pragma_table_info('resources') WHERE name <> 'resource'`).Scan(&columns))
	must(db.ExecContext(ctx, strings.ReplaceAll(`
		WITH RECURSIVE more(n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM more WHERE n + 1 < ?)
		INSERT INTO resources (resource, COLUMNS)
		SELECT format('resource-%07d', n), COLUMNS
		FROM more CROSS JOIN resources ON resource = format('resource-%07d', n % ? <> 0)
		ORDER BY n`, "COLUMNS", columns), size, heldEvery))
	must(db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`))
}
