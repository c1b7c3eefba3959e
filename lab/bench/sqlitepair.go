package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// pairRounds is the number of turns of each side of a pair, and pairTime their length: long
// enough for SQLite to move its log into the file several times.
const (
	pairRounds = 40
	pairTime   = 120 * time.Millisecond
)

// measureSQLitePair compares Lock and Unlock with the least cost of two transactions, in one
// process and in eight. Each process has a resource of its own: the processes compete for the
// file, not for a lock.
func measureSQLitePair(ctx context.Context, dir string) []result {
	var results []result
	for _, processes := range []int{1, 8} {
		results = append(results, sqlitePair(ctx, filepath.Join(dir, fmt.Sprint(processes)), processes))
	}
	return results
}

// pairSetup is the first message to a worker.
type pairSetup struct {
	Locks, Bare string // files
	Resource    string
	Text        string // of the row of a locked resource
}

// pairTurn tells a worker what to do next.
type pairTurn struct {
	Bare bool
	For  time.Duration
}

// pairCount is the worker's answer.
type pairCount struct {
	Pairs int
	Took  time.Duration
}

func sqlitePair(ctx context.Context, dir string, processes int) result {
	setup := pairSetup{Locks: filepath.Join(dir, "locks.db"), Bare: filepath.Join(dir, "bare.db")}
	setup.Text = lockedText(ctx, setup.Locks)
	var ws []*worker
	for i := range processes {
		w := startWorker(ctx, "pair")
		defer finish(w.stop)
		ws = append(ws, w)
		setup.Resource = fmt.Sprintf("resource-%d", i)
		check(w.send(setup))
		// One after another, because they create the tables.
		check(w.receive(new(bool)))
	}
	var bare, locks []float64 // pairs per second of all processes together
	side := func(isBare bool, rates *[]float64) func(bool) {
		return func(counts bool) {
			if rate := pairTurns(ws, pairTurn{Bare: isBare, For: pairTime}); counts {
				*rates = append(*rates, rate)
			}
		}
	}
	inTurns(pairRounds, side(true, &bare), side(false, &locks))
	title, limit := "1 process", 0.7
	if processes > 1 {
		title, limit = fmt.Sprintf("%d processes", processes), 0.65
	}
	return result{
		What:    "SQLite, Lock and Unlock per two bare transactions, " + title,
		Value:   median(locks) / median(bare),
		AtLeast: true, Limit: limit,
		Detail: fmt.Sprintf("medians of %d rounds in turns: %.0f and %.0f pairs per second; rows of %d bytes of text; each process on a resource of its own",
			pairRounds, median(locks), median(bare), len(setup.Text)),
		Points: pairPoints("SQLite, "+title, locks, "two bare transactions", bare),
	}
}

// pairTurns lets all workers work at once and returns their total rate per second.
func pairTurns(ws []*worker, turn pairTurn) (rate float64) {
	for _, w := range ws {
		check(w.send(turn))
	}
	for _, w := range ws {
		var c pairCount
		check(w.receive(&c))
		rate += float64(c.Pairs) / c.Took.Seconds()
	}
	return rate
}

// lockedText creates the file and returns the text that sqlitelock writes into the row of a
// locked resource, so that bare rows have the same size.
func lockedText(ctx context.Context, file string) (text string) {
	store := must(sqlitelock.Open(ctx, file, nil))
	defer finish(store.Close)
	client := holdfast.New(store, nil)
	defer finish(client.Close)
	must(client.Lock(ctx, "resource-0", nil))
	db := must(sql.Open("sqlite", file))
	defer finish(db.Close)
	check(db.QueryRowContext(ctx, `SELECT holds FROM resources`).Scan(&text))
	return text
}

// workPair takes turns as it is told.
func workPair(ctx context.Context, p *peer) {
	var setup pairSetup
	check(p.receive(&setup))
	b := must(openBare(ctx, setup.Bare, setup.Resource, setup.Text))
	defer finish(b.close)
	store := must(sqlitelock.Open(ctx, setup.Locks, nil))
	defer finish(store.Close)
	client := holdfast.New(store, nil)
	defer finish(client.Close)
	check(p.send(true))
	for {
		var turn pairTurn
		check(p.receive(&turn))
		pair := func() error { return lockAndUnlock(ctx, client, setup.Resource) }
		if turn.Bare {
			pair = func() error { return b.lockAndUnlock(ctx) }
		}
		var c pairCount
		for start := time.Now(); c.Took < turn.For; c.Took = time.Since(start) {
			check(pair())
			c.Pairs++
		}
		check(p.send(c))
	}
}

func lockAndUnlock(ctx context.Context, client *holdfast.Client, resource string) error {
	h, err := client.Lock(ctx, resource, nil)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}
