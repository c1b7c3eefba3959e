package httplock

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// maxBody is the largest number of bytes in a request with more than one item. Servers
	// accept more, but proxies may not.
	maxBody = 512 << 10
	// minShare is the shortest time limit of one of several requests, if ctx does not
	// end before.
	minShare = time.Second
)

// batch has items of type Q for one path. R is the result of an item.
type batch[Q, R any] struct {
	store *Store
	over  *lane
	path  string
	// take gets the result of each item, or the reason why its outcome is unknown. number
	// is the number given to add.
	take    func(number int, r R, err error)
	items   []Q
	numbers []int
}

func (b *batch[Q, R]) add(number int, item Q) {
	b.items, b.numbers = append(b.items, item), append(b.numbers, number)
}

// send sends the items; all is the number of items in the whole call. Each item gets its
// own outcome. An error counts for the whole call: send returns it only if nothing is
// known about any item, or if there was only one request.
func (b *batch[Q, R]) send(ctx context.Context, all int) error {
	var parts []part
	for from := 0; from < len(b.items); from += wire.MaxBatch {
		parts = append(parts, b.split(from, min(from+wire.MaxBatch, len(b.items)), maxBody)...)
	}
	var first error
	known, requests := len(b.items) < all, 0
	for len(parts) > 0 {
		p := parts[0]
		parts, requests = parts[1:], requests+1
		results, status, err := b.exchange(ctx, p, 1+len(parts))
		if status == http.StatusRequestEntityTooLarge && p.to-p.from > 1 {
			parts, requests = append(b.split(p.from, p.to, len(p.body)-1), parts...), requests-1
			continue
		}
		if first == nil {
			first = err
		}
		known = known || requests+len(parts) > 1 && (err == nil || wire.KindOf(err) != wire.KindUnknown)
		for i, number := range b.numbers[p.from:p.to] {
			b.take(number, results[i], err)
		}
	}
	if known {
		return nil
	}
	return first
}

// part is a request for the items between two indexes.
type part struct {
	from, to int
	body     []byte
}

// split returns requests of at most the given number of bytes, or with one item.
func (b *batch[Q, R]) split(from, to, most int) []part {
	body, _ := json.Marshal(wire.Batch[Q]{Holds: b.items[from:to]}) // never fails for these types
	if len(body) <= most || to-from == 1 {
		return []part{{from, to, body}}
	}
	middle := (from + to) / 2
	return append(b.split(from, middle, most), b.split(middle, to, most)...)
}

// exchange sends one of several requests, and returns a result for each of its items. It
// shares the time of ctx among the requests.
func (b *batch[Q, R]) exchange(ctx context.Context, p part, requests int) (results []R, status int, err error) {
	if deadline, ok := ctx.Deadline(); ok && requests > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/time.Duration(requests), minShare))
		defer cancel()
	}
	var answer wire.BatchAnswer[R]
	status, err = b.store.exchange(ctx, b.over, message{path: b.path, body: p.body}, &answer)
	if n := len(answer.Results); n != p.to-p.from {
		answer.Results = make([]R, p.to-p.from)
		err = cmp.Or(err, b.store.unexpected("%d results for %d requests", n, p.to-p.from))
	}
	return answer.Results, status, err
}
