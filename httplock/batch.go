package httplock

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/holdfast-go/holdfast/httplock/wire"
)

const (
	// maxBody is the largest number of bytes in the items of a request, unless it has one
	// item. Servers accept more, but proxies may not.
	maxBody = 512 << 10
	// minShare is the shortest time limit of one of several requests, if ctx does not
	// end before.
	minShare = time.Second
)

// batch has items of one kind for one path. R is the result of an item.
type batch[R any] struct {
	store *Store
	over  *lane
	path  string
	// take gets the result of each item, or the reason why its outcome is unknown. number
	// is the number given to add.
	take  func(number int, r R, err error)
	items []item
}

type item struct {
	number int
	text   json.RawMessage
}

func (b *batch[R]) add(number int, v any) {
	text, err := marshal(v)
	if err != nil {
		var none R
		b.take(number, none, err)
		return
	}
	b.items = append(b.items, item{number, text})
}

// send sends the items; all is the number of items in the whole call. Each item gets its
// own outcome. An error counts for the whole call: send returns it only if nothing is
// known about any item, or if there was only one request.
func (b *batch[R]) send(ctx context.Context, all int) error {
	var first error
	known, requests := len(b.items) < all, 0
	for parts := split(b.items); len(parts) > 0; {
		part := parts[0]
		results, status, err := b.exchange(ctx, part, len(parts))
		if status == http.StatusRequestEntityTooLarge && len(part) > 1 {
			half := len(part) / 2
			parts = append([][]item{part[:half], part[half:]}, parts[1:]...)
			continue
		}
		parts, requests = parts[1:], requests+1
		if first == nil {
			first = err
		}
		known = known || requests+len(parts) > 1 && (err == nil || wire.KindOf(err) != wire.KindUnknown)
		for i, it := range part {
			var r R
			switch {
			case err != nil:
				b.take(it.number, r, err)
			case i < len(results):
				b.take(it.number, results[i], nil)
			default:
				b.take(it.number, r, b.store.unexpected("%d results for %d requests", len(results), len(part)))
			}
		}
	}
	if known {
		return nil
	}
	return first
}

// exchange sends some items. It shares the time of ctx among the given number of
// requests.
func (b *batch[R]) exchange(ctx context.Context, items []item, requests int) (results []R, status int, err error) {
	if deadline, ok := ctx.Deadline(); ok && requests > 1 {
		share := max(time.Until(deadline)/time.Duration(requests), minShare)
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, share)
		defer cancel()
	}
	var body bytes.Buffer
	body.WriteString(`{"holds":[`)
	for i, it := range items {
		if i > 0 {
			body.WriteByte(',')
		}
		body.Write(it.text)
	}
	body.WriteString(`]}`)
	var answer struct {
		Results []R `json:"results"`
	}
	m := message{method: http.MethodPost, path: b.path, body: body.Bytes(), accept: wire.JSON}
	status, err = b.store.exchange(ctx, b.over, m, &answer)
	if err == nil && len(answer.Results) > len(items) {
		err = b.store.unexpected("%d results for %d requests", len(answer.Results), len(items))
	}
	return answer.Results, status, err
}

// split divides the items into parts that are small enough for a request.
func split(items []item) (parts [][]item) {
	for len(items) > 0 {
		n, size := 0, 0
		for n < min(len(items), wire.MaxBatch) {
			size += len(items[n].text) + 1
			if n > 0 && size > maxBody {
				break
			}
			n++
		}
		parts = append(parts, items[:n])
		items = items[n:]
	}
	return parts
}
