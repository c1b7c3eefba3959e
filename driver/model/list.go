package model

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
)

// Statuses returns the holds that match the filter.
func Statuses(r Record, now Time, f driver.Filter) []driver.Status {
	var ss []driver.Status
	for _, h := range r.Holds {
		if !f.Expired && !h.blocks(now) {
			continue
		}
		if s := h.status(r.Resource, now); f.Match(s) {
			ss = append(ss, s)
		}
	}
	return ss
}

// Places returns the live places that match the filter, in their order.
func Places(r Record, now Time, f driver.Filter) []driver.Place {
	var all []driver.Place
	live := 0
	for i := range r.Places {
		p := &r.Places[i]
		if !p.live(now) {
			continue
		}
		if s := p.status(r.Resource, now, live); f.MatchPlace(s) {
			all = append(all, s)
		}
		live++
	}
	return all
}

// Each returns an iterator over the holds or places of the entries, as the function of
// returns them. It ends after the first error. If it were inlined, each caller would have a
// copy of the returned function.
//
//go:noinline
func Each[R, T any](ctx context.Context, records iter.Seq2[R, error], of func(R) []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := ctx.Err(); err != nil {
			yield(none, err)
			return
		}
		for r, err := range records {
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range of(r) {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}
