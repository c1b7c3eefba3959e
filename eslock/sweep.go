package eslock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// soon is the time up to which a sweep looks. The clock of searches lags behind,
// and may be another node's.
const soon = "now+5s"

// Sweep implements driver.Store. Documents are searched for by the clock of the
// node that searches, and each is changed or deleted by an update that looks
// again, on its own. Damaged documents are left as they are, without a word: whoever
// asks for them is told.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := s.ready(ctx); err != nil {
		return total, err
	}
	// What is idle is deleted first: what loses a hold now is not idle.
	free := expires(object{"lte": epoch})
	untouched := object{"range": object{"holdfast.time": object{
		"lte": fmt.Sprintf(soon+"-%ds", int64(q.Idle/time.Second)),
	}}}
	err = s.change(ctx, all(free, untouched), remove, func(d document) any {
		return removeParams{document: d, Idle: q.Idle.Milliseconds()}
	}, func(o outcome) {
		if o.did == deleted {
			total.Records++
		}
	})
	if err != nil {
		return total, err
	}
	// Old clients write only the end of all.
	due := either(object{"range": object{"holdfast.due": object{"lte": soon}}}, expires(object{"lte": soon}))
	err = s.change(ctx, all(hasHolds(), due), sweep, func(d document) any {
		return d
	}, func(o outcome) {
		if o.did == updated {
			total.Holds += o.swept
		}
	})
	return total, err
}

// change sends an update for each document that matches.
func (s *Store) change(ctx context.Context, query object, st *statement, params func(document) any, done func(outcome)) error {
	for docs, err := range s.search(ctx, query) {
		if err != nil {
			return err
		}
		asks := make([]ask, len(docs))
		for i, d := range docs {
			asks[i] = ask{d, params(d)}
		}
		for _, o := range s.apply(ctx, st, asks) {
			if o.err != nil && !errors.Is(o.err, driver.ErrDamaged) {
				return o.err
			}
			done(o)
		}
	}
	return nil
}
