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

// Open implements history.Storage.
func (s *storage) Open(ctx context.Context) ([]history.Event, error) {
	return s.events(ctx, "SELECT "+columns+", h.hash FROM holds h JOIN events e ON e.number = h.number")
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
		return s.events(ctx, "SELECT "+columns+", NULL FROM events e WHERE e.number < ? AND e.at >= ? ORDER BY e.number DESC LIMIT ?", before, since, q.Limit)
	}
	return s.events(ctx, "SELECT "+columns+", NULL FROM events e WHERE e.resource = ? AND e.number < ? AND e.at >= ? ORDER BY e.number DESC LIMIT ?",
		q.Resource, before, since, q.Limit)
}

// Losses implements history.Storage.
func (s *storage) Losses(ctx context.Context, since time.Time, limit int) ([]history.Event, error) {
	return s.events(ctx, "SELECT "+columns+", NULL FROM events e WHERE e.loss = 1 AND e.at >= ? ORDER BY e.at DESC, e.number DESC LIMIT ?", since.UnixMicro(), limit)
}

// Lengths implements history.Storage.
func (s *storage) Lengths(ctx context.Context, resource string, limit int) (lengths []time.Duration, err error) {
	rows, err := s.db.QueryContext(ctx, `SELECT held FROM events
		WHERE resource = ? AND kind IN (?, ?) AND held IS NOT NULL ORDER BY number DESC LIMIT ?`,
		resource, string(history.Released), string(history.Gone), limit)
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var held sql.NullInt64
		if err := rows.Scan(&held); err != nil {
			return nil, s.explain(err)
		}
		lengths = append(lengths, duration(held))
	}
	return lengths, s.explain(rows.Err())
}

func (s *storage) events(ctx context.Context, query string, args ...any) (events []history.Event, err error) {
	rows, err := s.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.explain(err)
	}
	defer rows.Close()
	for rows.Next() {
		var e history.Event
		var at, token int64
		var mode string
		var hash []byte
		var within, held, renewed sql.NullInt64
		if err := rows.Scan(&e.Number, &at, &within, &e.Kind, &e.Resource, &e.Ref, &token, &mode, &e.Limit, &e.Owner, &e.Host, &e.Comment,
			&held, &renewed, &e.Caller, &e.Reason, &hash); err != nil {
			return nil, s.explain(err)
		}
		copy(e.Hash[:], hash)
		e.At, e.Token = time.UnixMicro(at), uint64(token)
		e.Within, e.Held, e.RenewedAgo = duration(within), duration(held), duration(renewed)
		if mode == driver.Shared.String() {
			e.Mode = driver.Shared
		}
		events = append(events, e)
	}
	return events, s.explain(rows.Err())
}
