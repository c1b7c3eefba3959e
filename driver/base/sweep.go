package base

import (
	"context"
	"errors"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/driver/model"
)

// chunk is the largest number of records that a sweep changes in one Update. It is small,
// because renewals wait for it.
const chunk = 100

// Sweep implements driver.Store.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := ctx.Err(); err != nil {
		return total, err
	}
	w := sweep{Store: s, SweepRequest: q}
	for name, err := range s.backend.Due(ctx, q.Idle) {
		if err != nil {
			w.errs = append(w.errs, err)
			break
		}
		if w.names = append(w.names, name); len(w.names) < w.chunk() {
			continue
		}
		if !w.flush(ctx) {
			break
		}
		if w.result.More = q.Most > 0 && w.changed >= q.Most; w.result.More {
			break
		}
	}
	w.flush(ctx)
	return w.result, errors.Join(w.errs...)
}

// sweep is the state of a Sweep.
type sweep struct {
	*Store
	driver.SweepRequest
	names   []string // due resources that were not decided yet
	changed int      // changed records
	result  driver.SweepResult
	errs    []error
}

// chunk returns the number of records for the next Update.
func (w *sweep) chunk() int {
	if w.Most > 0 {
		return min(chunk, w.Most-w.changed)
	}
	return chunk
}

// flush decides about the due resources and counts what was certainly removed. It returns
// false if the sweep cannot continue.
func (w *sweep) flush(ctx context.Context) bool {
	if len(w.names) == 0 {
		return true
	}
	us := make([]Update, len(w.names))
	counts := make([]driver.SweepResult, len(us))
	for i, name := range w.names {
		us[i] = Update{Resource: name, Decide: func(e Entry) Change {
			swept, dropped, remove := model.Sweep(e.Record, e.Now, w.Idle)
			counts[i] = driver.SweepResult{Holds: dropped}
			switch {
			case e.Missing: // another sweep has deleted the record
			case dropped > 0:
				return Change{Action: Put, Record: swept, Wake: true}
			case remove:
				counts[i].Records = 1
				return Change{Action: Delete, Record: e.Record}
			}
			return Change{}
		}}
	}
	w.names = w.names[:0]
	if err := w.backend.Update(ctx, us, false); err != nil {
		w.errs = append(w.errs, err)
		return false
	}
	for i, u := range us {
		switch n := counts[i]; {
		case u.Err != nil:
			w.errs = append(w.errs, u.Err)
		case n != driver.SweepResult{}:
			w.changed++
			w.result.Holds += n.Holds
			w.result.Records += n.Records
		}
	}
	return true
}
