package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/holdfast-go/holdfast/driver"
)

// postgresRounds is how often each side works.
const postgresRounds = 60

// measurePostgresPair compares Lock and Unlock with the same two statements sent
// bare, and with two bare upserts of a row.
func measurePostgresPair(ctx context.Context, _ string) (_ []result, err error) {
	db, err := openPostgres(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.close()) }()
	b, err := recordPostgres(ctx, db)
	if err != nil {
		return nil, err
	}
	if _, err := db.pool.Exec(ctx, "CREATE TABLE upserts (resource text PRIMARY KEY, holder text, changed timestamptz)"); err != nil {
		return nil, err
	}
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
			ours, theirs, err := ratesInTurns(postgresRounds, rateTurn, locks, peer.work)
			if err != nil {
				return nil, err
			}
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
	return results, nil
}

// twoUpserts is the least that says who holds, and that nobody does.
func twoUpserts(ctx context.Context, pool *pgxpool.Pool, resource string) error {
	for _, holder := range []string{"somebody", ""} {
		if _, err := pool.Exec(ctx, `INSERT INTO upserts VALUES ($1, $2, clock_timestamp())
			ON CONFLICT (resource) DO UPDATE SET holder = $2, changed = clock_timestamp()`, resource, holder); err != nil {
			return err
		}
	}
	return nil
}

// barePostgres sends the two statements of a lock and its unlock, as pglock wrote
// them, by pgx alone. What a lock cannot do without is put in each time: the
// resource, the hold ID, and the token from the first reply.
type barePostgres struct {
	pool             *pgxpool.Pool
	acquire, release statement
	holdID           string // in both
}

// The places of what is put in, after how pgx is to send it.
const (
	pgResourceAt = 1
	pgHoldAt     = 2
	pgLockIDAt   = 2
	pgHoldIDAt   = 3
	pgTokenAt    = 4
)

// recordPostgres lets pglock lock and unlock and keeps what it sent.
func recordPostgres(ctx context.Context, db *postgresDB) (*barePostgres, error) {
	db.sent.keep.Store(true)
	defer db.sent.keep.Store(false)
	h, err := db.locks.Lock(ctx, "resource", nil)
	if err != nil {
		return nil, err
	}
	if err := h.Unlock(ctx); err != nil {
		return nil, err
	}
	sent := db.sent.kept
	if len(sent) != 2 || sent[0].args[pgResourceAt] != "resource" ||
		!strings.Contains(fmt.Sprint(sent[0].args[pgHoldAt]), h.ID().String()) ||
		fmt.Sprint(sent[1].args[pgTokenAt]) != fmt.Sprint([]uint64{h.Token()}) {
		return nil, fmt.Errorf("a lock and its unlock sent %v", sent)
	}
	return &barePostgres{pool: db.pool, acquire: sent[0], release: sent[1], holdID: h.ID().String()}, nil
}

// lockAndUnlock is the two statements.
func (b *barePostgres) lockAndUnlock(ctx context.Context, resource string) error {
	id := driver.NewHoldID().String()
	acquire, release := slices.Clone(b.acquire.args), slices.Clone(b.release.args)
	acquire[pgResourceAt] = resource
	acquire[pgHoldAt] = strings.ReplaceAll(acquire[pgHoldAt].(string), b.holdID, id)
	var outcome int
	var clock, ends, token *int64
	var holds, ahead *[]byte
	var place, waiters *int
	if err := b.pool.QueryRow(ctx, b.acquire.sql, acquire...).Scan(&outcome, &clock, &ends, &token, &holds, &place, &waiters, &ahead); err != nil {
		return err
	}
	if token == nil {
		return fmt.Errorf("the first statement answered %d", outcome)
	}
	release[pgResourceAt], release[pgLockIDAt], release[pgHoldIDAt] = []string{resource}, []string{id}, []string{id}
	release[pgTokenAt] = []int64{*token}
	if err := b.pool.QueryRow(ctx, b.release.sql, release...).Scan(&outcome, &clock, &ends, &waiters); err != nil || outcome != 1 {
		return fmt.Errorf("the second statement answered %d (%w)", outcome, err)
	}
	return nil
}
