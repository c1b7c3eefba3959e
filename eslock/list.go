package eslock

import (
	"context"
	"iter"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// List implements driver.Store. A single resource is looked up by the ID of its
// document. Whatever else is searched for, after a refresh; then the documents
// found are read as they are, with the clock of their shards. Both are updates
// that change nothing, for no other request tells that clock: it takes the right
// to write.
func (s *Store) List(ctx context.Context, f driver.Filter) iter.Seq2[driver.Status, error] {
	return func(yield func(driver.Status, error) bool) {
		for o, err := range s.documents(ctx, f) {
			if err != nil {
				yield(driver.Status{}, err)
				return
			}
			for _, status := range model.Statuses(o.record, o.now, f) {
				if !yield(status, nil) {
					return
				}
			}
		}
	}
}

// documents yields those that may have what the filter chooses. It ends after the
// first error.
func (s *Store) documents(ctx context.Context, f driver.Filter) iter.Seq2[outcome, error] {
	return func(yield func(outcome, error) bool) {
		each := func(docs []document) bool {
			for _, o := range s.look(ctx, docs) {
				if o.did == missing {
					continue
				}
				if !yield(o, o.err) || o.err != nil {
					return false
				}
			}
			return true
		}
		if err := s.ready(ctx); err != nil {
			yield(outcome{}, err)
			return
		}
		if f.Resource != "" {
			each([]document{documentOf(f.Resource)})
			return
		}
		for docs, err := range s.search(ctx, query(f)) {
			if err != nil {
				yield(outcome{}, err)
				return
			}
			if !each(docs) {
				return
			}
		}
	}
}
