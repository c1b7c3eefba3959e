package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	bsm "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/driver"
)

// redisRounds is the number of rounds of each side.
const redisRounds = 100

// measureRedisPair compares Lock and Unlock with the same two scripts sent bare.
func measureRedisPair(ctx context.Context, _ string) []result {
	db := openRedis(ctx)
	defer finish(db.close)
	b := recordRedis(ctx, db)
	locks := []func() error{func() error { return lockAndUnlock(ctx, db.locks, "resource") }}
	bare := []func() error{func() error { return b.lockAndUnlock(ctx) }}
	ours, theirs := ratesInTurns(redisRounds, rateTurn, locks, bare)
	return []result{{
		What:    "Redis, Lock and Unlock per the same two EVALSHA sent bare, 1 worker",
		Value:   medianRatio(ours, theirs),
		AtLeast: true, Limit: 0.9,
		Detail: fmt.Sprintf("median ratio of %d rounds in turns, with medians of %.0f and %.0f pairs per second; a redis.Client with the same options",
			redisRounds, median(ours), median(theirs)),
		Points: pairPoints("Redis, 1 worker", ours, sameBare, theirs),
	}}
}

// measureRedisPeers compares Lock and Unlock with other libraries, each worker with a resource of
// its own. DESIGN.md, Redis, says why one worker is slower.
func measureRedisPeers(ctx context.Context, _ string) []result {
	db := openRedis(ctx)
	defer finish(db.close)
	var results []result
	for workers, limit := range map[int]float64{1: 0.7, 32: 1.2, 256: 2} {
		results = append(results, redisPeers(ctx, db, workers, limit))
	}
	slices.SortFunc(results, func(a, b result) int { return len(a.What) - len(b.What) })
	return results
}

// redisPeers compares with the better of the others.
func redisPeers(ctx context.Context, db *redisDB, workers int, limit float64) result {
	obtainer, sync := bsm.New(db.client), redsync.New(goredis.NewPool(db.client))
	var ours []func() error
	peers := map[string][]func() error{}
	for i := range workers {
		resource := fmt.Sprintf("resource-%d", i)
		ours = append(ours, func() error { return lockAndUnlock(ctx, db.locks, resource) })
		peers["bsm/redislock"] = append(peers["bsm/redislock"], func() error {
			l, err := obtainer.Obtain(ctx, db.prefix+"bsm "+resource, 30*time.Second, nil)
			if err != nil {
				return err
			}
			return l.Release(ctx)
		})
		peers["redsync"] = append(peers["redsync"], func() error {
			l := sync.NewMutex(db.prefix+"redsync "+resource, redsync.WithExpiry(30*time.Second))
			if err := l.LockContext(ctx); err != nil {
				return err
			}
			_, err := l.UnlockContext(ctx)
			return err
		})
	}
	worst := result{Value: -1}
	var detail string
	for _, name := range []string{"bsm/redislock", "redsync"} {
		mine, theirs := ratesInTurns(redisRounds, rateTurn, ours, peers[name])
		ratio := medianRatio(mine, theirs)
		worst.Points = append(worst.Points, pairPoints("Redis, "+workersOf(workers), mine, name, theirs)...)
		detail += fmt.Sprintf("; %.3g times %s, with medians of %.0f and %.0f pairs per second", ratio, name, median(mine), median(theirs))
		if worst.Value < 0 || ratio < worst.Value {
			worst.Value = ratio
		}
	}
	worst.What = "Redis, Lock and Unlock per the better of bsm/redislock and redsync, " + workersOf(workers)
	worst.AtLeast, worst.Limit = true, limit
	worst.Detail = fmt.Sprintf("median ratios of %d rounds in turns%s; a redis.Client with the same options, each worker on a resource of its own", redisRounds, detail)
	return worst
}

// bareRedis sends the two scripts of a lock and its unlock with go-redis alone, as redislock
// wrote them. Only the hold ID, and the token from the first reply, are inserted each time.
type bareRedis struct {
	client           *redis.Client
	acquire, release []any
	id               string // of the recorded hold
	token            uint64
}

// itemAt is the index of the argument of both scripts that contains these values.
const itemAt = 5

// recordRedis lets redislock lock and unlock and records the scripts.
func recordRedis(ctx context.Context, db *redisDB) *bareRedis {
	other := openCountedRedis(ctx)
	other.client.AddHook(other.trips)
	defer finish(other.close)
	h := must(other.locks.Lock(ctx, "resource", nil))
	b := &bareRedis{client: db.client, id: h.ID().String(), token: h.Token()}
	check(h.Unlock(ctx))
	sent := other.trips.args
	for _, args := range sent {
		if len(sent) != 2 || len(args) <= itemAt || !strings.Contains(string(args[itemAt].([]byte)), b.id) {
			failf("a lock and its unlock sent %v", sent)
		}
	}
	b.acquire, b.release = sent[0], sent[1]
	return b
}

// with returns the recorded arguments for another hold.
func (b *bareRedis) with(args []any, id string, token uint64) []any {
	args = slices.Clone(args)
	item := bytes.Replace(args[itemAt].([]byte), []byte(b.id), []byte(id), 1)
	args[itemAt] = bytes.Replace(item, fmt.Appendf(nil, "%016d", b.token), fmt.Appendf(nil, "%016d", token), 1)
	return args
}

// lockAndUnlock runs the two scripts.
func (b *bareRedis) lockAndUnlock(ctx context.Context) error {
	id := driver.NewHoldID().String()
	token, err := b.client.Do(ctx, b.with(b.acquire, id, 0)...).Int64()
	if err != nil {
		return err
	}
	if found, err := b.client.Do(ctx, b.with(b.release, id, uint64(token))...).Int64(); err != nil || found != 1 {
		return fmt.Errorf("the second script answered %d (%w)", found, err)
	}
	return nil
}
