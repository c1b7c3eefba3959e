package historyfile

import (
	"context"
	"database/sql"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
)

// columns are those of an event without its hash, which the table has not: nobody asks for it
// once the hold has ended.
const columns = `e.number, e.at, e.within, e.kind, e.resource, e.ref, e.token, e.mode, e.most, e.owner, e.host, e.comment,
	e.held, e.renewed_ago, e.caller, e.reason`

// next is when a hold began that excludes that of e, by the first event that tells of one.
const next = `SELECT n.at - coalesce(n.held, 0) FROM events n
	WHERE n.resource = e.resource AND n.number > e.number AND n.token > e.token AND n.kind IN ('granted', 'seen')
	AND (n.mode = 'exclusive' OR e.mode = 'exclusive') ORDER BY n.number LIMIT 1`

// Open implements history.Storage.
func (s *storage) Open(ctx context.Context) (all []history.Open, err error) {
	err = s.each(ctx, func(row row) error {
		var o history.Open
		var hash []byte
		var left int64
		var next sql.NullInt64
		if o.Event, err = row.event(&hash, &left, &next); err != nil {
			return err
		}
		copy(o.Hash[:], hash)
		o.Left = toLeft(left)
		if next.Valid {
			o.Next = time.UnixMicro(next.Int64)
		}
		all = append(all, o)
		return nil
	}, "SELECT "+columns+", h.hash, h.left, ("+next+") FROM holds h JOIN events e ON e.number = h.number")
	return all, err
}

// How left is kept of holds that have no end, and of those whose end is not known.
const leftForever, leftUnknown = -1, -2

func leftOf(d time.Duration) int64 {
	switch d {
	case driver.Forever:
		return leftForever
	case driver.Unknown:
		return leftUnknown
	}
	return d.Microseconds()
}

func toLeft(micros int64) time.Duration {
	switch micros {
	case leftForever:
		return driver.Forever
	case leftUnknown:
		return driver.Unknown
	}
	return time.Duration(micros) * time.Microsecond
}

// Events implements history.Storage.
func (s *storage) Events(ctx context.Context, q history.Query) ([]history.Event, error) {
	before, since := q.Before, int64(math.MinInt64)
	if before == 0 {
		before = math.MaxInt64
	}
	if !q.Since.IsZero() {
		since = q.Since.UnixMicro()
	}
	if q.Resource == "" {
		return s.events(ctx, "SELECT "+columns+" FROM events e WHERE e.number < ? AND e.at >= ? ORDER BY e.number DESC LIMIT ?", before, since, q.Limit)
	}
	return s.events(ctx, "SELECT "+columns+" FROM events e WHERE e.resource = ? AND e.number < ? AND e.at >= ? ORDER BY e.number DESC LIMIT ?",
		q.Resource, before, since, q.Limit)
}

// Losses implements history.Storage.
func (s *storage) Losses(ctx context.Context, since time.Time, limit int) ([]history.Event, error) {
	return s.events(ctx, "SELECT "+columns+" FROM events e WHERE e.loss = 1 AND e.at >= ? ORDER BY e.at DESC, e.number DESC LIMIT ?", since.UnixMicro(), limit)
}

// Lengths implements history.Storage.
func (s *storage) Lengths(ctx context.Context, resource string, limit int) (lengths []time.Duration, err error) {
	err = s.each(ctx, func(row row) error {
		var held sql.NullInt64
		err := row.Scan(&held)
		lengths = append(lengths, duration(held))
		return err
	}, `SELECT held FROM events
		WHERE resource = ? AND kind IN (?, ?) AND held IS NOT NULL ORDER BY number DESC LIMIT ?`,
		resource, string(history.Released), string(history.Gone), limit)
	return lengths, err
}

func (s *storage) events(ctx context.Context, query string, args ...any) (events []history.Event, err error) {
	err = s.each(ctx, func(row row) error {
		e, err := row.event()
		events = append(events, e)
		return err
	}, query, args...)
	return events, err
}

// each calls do with each row of the answer.
func (s *storage) each(ctx context.Context, do func(row) error, query string, args ...any) error {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return s.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := do(row{rows}); err != nil {
			return s.explain(err)
		}
	}
	return s.explain(rows.Err())
}

type row struct{ *sql.Rows }

// event returns the event of the row, and puts into more what comes after its columns.
func (r row) event(more ...any) (e history.Event, err error) {
	var at, token int64
	var mode string
	var within, held, renewed sql.NullInt64
	err = r.Scan(append([]any{
		&e.Number, &at, &within, &e.Kind, &e.Resource, &e.Ref, &token, &mode, &e.Limit, &e.Owner, &e.Host, &e.Comment,
		&held, &renewed, &e.Caller, &e.Reason,
	}, more...)...)
	e.At, e.Token = time.UnixMicro(at), uint64(token)
	e.Within, e.Held, e.RenewedAgo = duration(within), duration(held), duration(renewed)
	if mode == driver.Shared.String() {
		e.Mode = driver.Shared
	}
	return e, err
}
