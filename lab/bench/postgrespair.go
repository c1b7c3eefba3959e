package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
)

// postgresRounds is the number of rounds of each side.
const postgresRounds = 60

// measurePostgresPair compares Lock and Unlock with the same two statements sent bare, and with
// two bare upserts of a row.
func measurePostgresPair(ctx context.Context, _ string) []result {
	db := openPostgres(ctx)
	defer finish(db.close)
	b := recordPostgres(ctx, db)
	must(db.pool.Exec(ctx, "CREATE TABLE upserts (resource text PRIMARY KEY, holder text, changed timestamptz)"))
	var results []result
	for _, workers := range []int{1, 16} {
		var locks, bare, upserts []func() error
		for i := range workers {
			resource := fmt.Sprintf("resource-%d", i)
			locks = append(locks, func() error { return lockAndUnlock(ctx, db.locks, resource) })
			bare = append(bare, func() error { return b.lockAndUnlock(ctx, resource) })
			upserts = append(upserts, func() error { return twoUpserts(ctx, db.pool, resource) })
		}
		for _, peer := range []struct {
			what   string
			series string
			limit  float64
			work   []func() error
		}{
			{"the same two statements sent bare", sameBare, 0.85, bare},
			{"two bare upserts of a row", "two bare upserts", 0.4, upserts},
		} {
			ours, theirs := ratesInTurns(postgresRounds, rateTurn, locks, peer.work)
			results = append(results, result{
				What:    fmt.Sprintf("PostgreSQL, Lock and Unlock per %s, %s", peer.what, workersOf(workers)),
				Value:   medianRatio(ours, theirs),
				AtLeast: true, Limit: peer.limit,
				Detail: fmt.Sprintf("median ratio of %d rounds in turns, with medians of %.0f and %.0f pairs per second; the same pool, each worker on a resource of its own, fsync on",
					postgresRounds, median(ours), median(theirs)),
				Points: pairPoints("PostgreSQL, "+workersOf(workers), ours, peer.series, theirs),
			})
		}
	}
	return results
}

// twoUpserts is the least work that records a holder, and then that there is none.
func twoUpserts(ctx context.Context, pool *pgxpool.Pool, resource string) error {
	for _, holder := range []string{"somebody", ""} {
		if _, err := pool.Exec(ctx, `INSERT INTO upserts VALUES ($1, $2, clock_timestamp())
			ON CONFLICT (resource) DO UPDATE SET holder = $2, changed = clock_timestamp()`, resource, holder); err != nil {
			return err
		}
	}
	return nil
}

// barePostgres sends the two statements of a lock and its unlock with pgx alone, as pglock
// wrote them. Only the resource, the hold ID, and the token from the first reply are inserted
// each time.
type barePostgres struct {
	pool             *pgxpool.Pool
	acquire, release statement
	resource, holdID string // in both statements
	token            int64  // in release
}

// recordPostgres lets pglock lock and unlock and records the statements.
func recordPostgres(ctx context.Context, db *postgresDB) *barePostgres {
	db.sent.keep.Store(true)
	defer db.sent.keep.Store(false)
	const resource = "recorded"
	h := must(db.locks.Lock(ctx, resource, nil))
	check(h.Unlock(ctx))
	sent := db.sent.kept
	if len(sent) != 2 {
		failf("a lock and its unlock sent %v", sent)
	}
	b := &barePostgres{db.pool, sent[0], sent[1], resource, h.ID().String(), int64(h.Token())}
	if err := b.lockAndUnlock(ctx, "another"); err != nil {
		failf("sent bare: %w; a lock and its unlock sent %v", err, sent)
	}
	return b
}

// lockAndUnlock sends the two statements.
func (b *barePostgres) lockAndUnlock(ctx context.Context, resource string) error {
	id := driver.NewHoldID().String()
	var outcome int
	var clock, ends, token *int64
	var holds, ahead *[]byte
	var place, waiters *int
	err := b.pool.QueryRow(ctx, b.acquire.sql, b.with(b.acquire.args, resource, id, 0)...).
		Scan(&outcome, &clock, &ends, &token, &holds, &place, &waiters, &ahead)
	if err != nil {
		return fmt.Errorf("the first statement: %w", err)
	}
	if token == nil {
		return fmt.Errorf("the first statement answered %d", outcome)
	}
	err = b.pool.QueryRow(ctx, b.release.sql, b.with(b.release.args, resource, id, *token)...).
		Scan(&outcome, &clock, &ends, &waiters)
	if err != nil {
		return fmt.Errorf("the second statement: %w", err)
	}
	if outcome != 1 {
		return fmt.Errorf("the second statement answered %d", outcome)
	}
	return nil
}

// with returns the arguments with new values for the recorded ones, at whatever position these
// are.
func (b *barePostgres) with(args []any, resource, holdID string, token int64) []any {
	put := func(s string) string {
		return strings.ReplaceAll(strings.ReplaceAll(s, b.resource, resource), b.holdID, holdID)
	}
	args = slices.Clone(args)
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = put(arg)
		case []string:
			args[i] = replaced(arg, put)
		case []int64:
			args[i] = replaced(arg, func(n int64) int64 {
				if n == b.token {
					return token
				}
				return n
			})
		}
	}
	return args
}

// replaced returns the results of f for each value.
func replaced[T any](values []T, f func(T) T) []T {
	made := make([]T, len(values))
	for i, v := range values {
		made[i] = f(v)
	}
	return made
}
