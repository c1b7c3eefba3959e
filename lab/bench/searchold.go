package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/lab/internal/results"
)

const (
	// oldRounds are fewer and longer, because the old library is slow.
	oldRounds = 10
	oldTurn   = 10 * rateTurn
	oldWarmUp = 5 * time.Second // of each side
)

// measureSearchOld compares Lock and Unlock with the requests of the old library, rebuilt from
// what is known of it, on the same node with the same client: by 16 workers, each with a
// resource of its own. The rate of one worker is only reported, because it is the latency of
// the node: bare updates are as slow.
func measureSearchOld(ctx context.Context, _ string) []result {
	return onOpenSearch(ctx, func(n *searchNode, client *holdfast.Client) []result {
		one, oldOne := searchOld(ctx, n, client, 1)
		ours, old := searchOld(ctx, n, client, 16)
		return []result{{
			What:    n.server + ", Lock and Unlock per the two statements of es-distributed-lock, " + workersOf(16),
			Value:   medianRatio(ours, old),
			AtLeast: true, Limit: 10,
			Detail: fmt.Sprintf("median ratio of %d rounds in turns, with medians of %.0f and %.1f pairs per second; by one worker %.1f, with %.0f and %.1f; the same client, index and node",
				oldRounds, median(ours), median(old), medianRatio(one, oldOne), median(one), median(oldOne)),
			Points: []results.Point{ratePoint("pairs", n.server+", "+workersOf(16), "es-distributed-lock", old)},
		}}
	})
}

// searchOld measures the rates of both sides.
func searchOld(ctx context.Context, n *searchNode, client *holdfast.Client, workers int) (ours, old []float64) {
	locks, olds := make([]func() error, workers), make([]func() error, workers)
	for i := range workers {
		resource := fmt.Sprintf("resource-%d", i)
		locks[i] = func() error { return lockAndUnlock(ctx, client, resource) }
		olds[i] = func() error { return n.oldLockAndUnlock(ctx, "old-"+resource, driver.NewHoldID().String()) }
	}
	// A node that has just started is much slower at first.
	for _, side := range [][]func() error{locks, olds} {
		rateOf(side, scaled(oldWarmUp))
	}
	return ratesInTurns(oldRounds, oldTurn, locks, olds)
}

// oldTake is the script of its update: it takes a lock that is its own or has expired.
const oldTake = `if (ctx._source.expires == null || ctx._source.owner == params.owner ||
	ZonedDateTime.parse(ctx._source.expires).isBefore(ZonedDateTime.parse(params.acquired))) {
	ctx._source.owner = params.owner;
	ctx._source.acquired = params.acquired;
	ctx._source.expires = params.expires;
} else {
	ctx.op = 'none';
}`

// oldLockAndUnlock sends an update and a deletion by query. Both wait until searches see the
// change.
func (n *searchNode) oldLockAndUnlock(ctx context.Context, id, owner string) error {
	type object = map[string]any
	now := time.Now()
	take, err := json.Marshal(object{
		"scripted_upsert": true, "upsert": object{},
		"script": object{"lang": "painless", "source": oldTake, "params": object{
			"owner": owner, "acquired": now, "expires": now.Add(time.Minute),
		}},
	})
	if err != nil {
		return err
	}
	var taken struct{ Result string }
	if err := n.ask(ctx, http.MethodPost, "/"+n.index+"/_update/"+id+"?refresh=true", take, &taken); err != nil {
		return err
	}
	remove, err := json.Marshal(object{"query": object{"bool": object{"filter": []object{
		{"ids": object{"values": []string{id}}},
		{"term": object{"owner.keyword": owner}},
	}}}})
	if err != nil {
		return err
	}
	var removed struct{ Deleted int }
	if err := n.ask(ctx, http.MethodPost, "/"+n.index+"/_delete_by_query?refresh=true", remove, &removed); err != nil {
		return err
	}
	if taken.Result != "created" || removed.Deleted != 1 {
		return fmt.Errorf("an old lock was %q, and %d deleted", taken.Result, removed.Deleted)
	}
	return nil
}
