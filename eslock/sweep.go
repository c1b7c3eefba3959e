package eslock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/holdfast-go/holdfast/driver"
)

// soon is the time up to which a sweep searches. The clock of searches lags behind, and
// may be another node's clock.
const soon = "now+5s"

// Sweep implements driver.Store. Its cost depends on the number of due documents, because
// the index finds them.
func (s *Store) Sweep(ctx context.Context, q driver.SweepRequest) (total driver.SweepResult, err error) {
	if err := s.refresh(ctx); err != nil {
		return total, err
	}
	// Idle documents are deleted first: a document that loses a hold now is not idle.
	if total.Records, err = s.deleteIdle(ctx, q); err != nil {
		return total, err
	}
	if total.More = q.Most > 0 && total.Records >= q.Most; total.More {
		return total, nil
	}
	err = s.dropHolds(ctx, q.Most-total.Records, &total)
	return total, err
}

// deleteIdle deletes the documents that have no hold and have not changed for q.Idle, in
// one request. The server does not delete a document that has changed since it found it.
// It compares the field time, which is not before the last token, with the clock of the
// node that searches. That clock may be ahead of the clock that makes tokens by up to
// q.Idle.
func (s *Store) deleteIdle(ctx context.Context, q driver.SweepRequest) (int, error) {
	seconds := int64((q.Idle + time.Second - 1) / time.Second)
	params := url.Values{"conflicts": {"proceed"}, "timeout": {primaryTimeout}}
	if q.Most > 0 {
		params.Set("max_docs", strconv.Itoa(q.Most))
	}
	var reply struct {
		Deleted  *int
		TimedOut bool `json:"timed_out"`
		Failures []json.RawMessage
	}
	err := s.call(ctx, http.MethodPost, s.at("_delete_by_query"), params, object{"query": all(
		expires(object{"lte": epoch}),
		object{"range": object{"holdfast.time": object{"lte": fmt.Sprintf("now-%ds", seconds)}}},
	)}, &reply)
	switch {
	case err != nil:
		return 0, err
	case reply.Deleted == nil:
		return 0, s.wrap(fmt.Errorf("the server does not say how many documents it has deleted"))
	case reply.TimedOut || len(reply.Failures) > 0:
		return *reply.Deleted, s.wrap(fmt.Errorf("the server has not deleted all documents that are idle"))
	}
	return *reply.Deleted, nil
}

// dropHolds drops the holds that no longer block. It searches for documents, and changes
// each by an update that decides again, by the clock of its primary. An update-by-query
// would decide by the clock of the node that got it, and does not return the number of
// dropped holds. dropHolds leaves damaged documents unchanged, without an error: requests
// for them report the damage. most is the largest number of documents that it changes; 0
// or less means no limit.
func (s *Store) dropHolds(ctx context.Context, most int, total *driver.SweepResult) error {
	// Old clients write only one end for all holds.
	due := either(object{"range": object{"holdfast.due": object{"lte": soon}}}, expires(object{"lte": soon}))
	changed := 0
	for asks, err := range s.search(ctx, all(hasHolds(), due)) {
		if err != nil {
			return err
		}
		if most > 0 {
			asks = asks[:min(len(asks), most-changed)]
		}
		for _, o := range s.apply(ctx, sweep, asks) {
			if o.err != nil && !errors.Is(o.err, driver.ErrDamaged) {
				return o.err
			}
			if o.swept > 0 {
				total.Holds += o.swept
				changed++
			}
		}
		if total.More = most > 0 && changed >= most; total.More {
			return nil
		}
	}
	return nil
}
