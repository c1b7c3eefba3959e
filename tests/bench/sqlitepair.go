package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/sqlitelock"
)

// pairRounds and pairTime are how often, and for how long, each side of a pair
// works. Long enough to see SQLite move its log into the file, several times.
const (
	pairRounds = 40
	pairTime   = 120 * time.Millisecond
)

// measureSQLitePair compares Lock and Unlock with the least that two
// transactions cost, in one process and in eight. Each process has a resource of
// its own: they are in one another's way at the file, not at the lock.
func measureSQLitePair(ctx context.Context, dir string) ([]result, error) {
	var results []result
	for _, processes := range []int{1, 8} {
		r, err := sqlitePair(ctx, filepath.Join(dir, fmt.Sprint(processes)), processes)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

// pairSetup is what a worker is told first.
type pairSetup struct {
	Locks, Bare string // files
	Resource    string
	Text        string // of a row of a resource that is locked
}

// pairTurn tells it what to do next.
type pairTurn struct {
	Bare bool
	For  time.Duration
}

// pairCount is its answer.
type pairCount struct {
	Pairs int
	Took  time.Duration
}

func sqlitePair(ctx context.Context, dir string, processes int) (_ result, err error) {
	setup := pairSetup{Locks: filepath.Join(dir, "locks.db"), Bare: filepath.Join(dir, "bare.db")}
	if setup.Text, err = lockedText(ctx, setup.Locks); err != nil {
		return result{}, err
	}
	var ws []*worker
	defer func() { stopAll(ws, &err) }()
	for i := range processes {
		w, err := startWorker(ctx, "pair")
		if err != nil {
			return result{}, err
		}
		ws = append(ws, w)
		setup.Resource = fmt.Sprintf("resource-%d", i)
		if err := w.send(setup); err != nil {
			return result{}, err
		}
		// One after another: they make the tables.
		if err := w.receive(new(bool)); err != nil {
			return result{}, err
		}
	}
	var bare, locks []float64 // pairs per second of all processes together
	side := func(isBare bool, rates *[]float64) func(bool) error {
		return func(counts bool) error {
			rate, err := pairTurns(ws, pairTurn{Bare: isBare, For: pairTime})
			if counts {
				*rates = append(*rates, rate)
			}
			return err
		}
	}
	if err := inTurns(pairRounds, side(true, &bare), side(false, &locks)); err != nil {
		return result{}, err
	}
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
	}, nil
}

// pairTurns lets all workers work at once and returns what they did in a second
// together.
func pairTurns(ws []*worker, turn pairTurn) (rate float64, err error) {
	for _, w := range ws {
		if err := w.send(turn); err != nil {
			return 0, err
		}
	}
	for _, w := range ws {
		var c pairCount
		if err := w.receive(&c); err != nil {
			return 0, err
		}
		rate += float64(c.Pairs) / c.Took.Seconds()
	}
	return rate, nil
}

// lockedText makes the file and returns what sqlitelock writes into a row as it
// locks, so that the bare rows can have the same size.
func lockedText(ctx context.Context, file string) (text string, err error) {
	store, err := sqlitelock.Open(ctx, file, nil)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	client := holdfast.New(store, nil)
	defer func() { err = errors.Join(err, client.Close()) }()
	if _, err := client.Lock(ctx, "resource-0", nil); err != nil {
		return "", err
	}
	db, err := sql.Open("sqlite", file)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	err = db.QueryRowContext(ctx, `SELECT holds FROM resources`).Scan(&text)
	return text, err
}

// workPair takes turns as it is told.
func workPair(ctx context.Context, p *peer) (err error) {
	var setup pairSetup
	if err := p.receive(&setup); err != nil {
		return err
	}
	b, err := openBare(ctx, setup.Bare, setup.Resource, setup.Text)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	store, err := sqlitelock.Open(ctx, setup.Locks, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	client := holdfast.New(store, nil)
	defer func() { err = errors.Join(err, client.Close()) }()
	if err := p.send(true); err != nil {
		return err
	}
	for {
		var turn pairTurn
		if err := p.receive(&turn); err != nil {
			return err
		}
		pair := func() error { return lockAndUnlock(ctx, client, setup.Resource) }
		if turn.Bare {
			pair = func() error { return b.lockAndUnlock(ctx) }
		}
		var c pairCount
		for start := time.Now(); c.Took < turn.For; c.Took = time.Since(start) {
			if err := pair(); err != nil {
				return err
			}
			c.Pairs++
		}
		if err := p.send(c); err != nil {
			return err
		}
	}
}

func lockAndUnlock(ctx context.Context, client *holdfast.Client, resource string) error {
	h, err := client.Lock(ctx, resource, nil)
	if err != nil {
		return err
	}
	return h.Unlock(ctx)
}
