package historyfile

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"math"
	"time"

	"github.com/holdfast-go/holdfast/driver"
	"github.com/holdfast-go/holdfast/server/history"
)

const columns = `number, resource, ref, token, mode, most, owner, host, comment,
	began_after, began_by, ended_after, ended_by, how, forced_by, reason, caller, hash`

// Load implements history.Storage.
func (s *storage) Load(ctx context.Context) (saved history.Saved, err error) {
	var looked sql.NullInt64
	var gaps string
	err = s.db.QueryRowContext(ctx, "SELECT looked, gaps, (SELECT coalesce(max(number), 0) FROM holds) FROM kept").Scan(&looked, &gaps, &saved.Last)
	if err == nil {
		saved.Looked = at(looked)
		err = json.Unmarshal([]byte(gaps), &saved.Gaps)
	}
	if err == nil {
		saved.Bounds, err = s.bounds(ctx, s.db)
	}
	if err == nil {
		saved.Open, err = s.holds(ctx, "ended_by IS NULL")
	}
	return saved, s.explain(err)
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func (s *storage) bounds(ctx context.Context, q querier) (history.Bounds, error) {
	var since, removed sql.NullInt64
	err := q.QueryRowContext(ctx, "SELECT since, removed FROM kept").Scan(&since, &removed)
	b := history.Bounds{Since: at(since), Removed: at(removed)}
	if oldest := time.Now().Add(-s.keep); b.Since.Before(oldest) {
		b.Since = oldest
	}
	if b.Removed.Before(b.Since) { // they were too old
		b.Removed = time.Time{}
	}
	return b, err
}

// Holds implements history.Storage.
func (s *storage) Holds(ctx context.Context, q history.Query) ([]history.Hold, error) {
	where, args := "number < ?", []any{cmp.Or(q.Before, math.MaxInt64)}
	if q.Resource != "" {
		where, args = where+" AND resource = ?", append(args, q.Resource)
	}
	order := "number"
	switch {
	case q.Losses: // there may be many of before
		where, args, order = where+" AND how IN ('forced', 'lost') AND ended_by >= ?", append(args, q.Since.UnixMicro()), "ended_by"
	case !q.Since.IsZero():
		where, args = where+" AND (ended_by >= ? OR ended_by IS NULL)", append(args, q.Since.UnixMicro())
	}
	holds, err := s.holds(ctx, where+" ORDER BY "+order+" DESC LIMIT ?", append(args, q.Limit)...)
	return holds, s.explain(err)
}

func (s *storage) holds(ctx context.Context, where string, args ...any) (holds []history.Hold, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT "+columns+" FROM holds WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var h history.Hold
		var token int64
		var mode string
		var hash []byte
		var beganAfter, beganBy, endedAfter, endedBy sql.NullInt64
		err := rows.Scan(&h.Number, &h.Resource, &h.Ref, &token, &mode, &h.Limit, &h.Owner, &h.Host, &h.Comment,
			&beganAfter, &beganBy, &endedAfter, &endedBy, &h.How, &h.By, &h.Reason, &h.Caller, &hash)
		if err != nil {
			return nil, err
		}
		h.Token, h.Began, h.Ended = uint64(token), history.Moment{After: at(beganAfter), By: at(beganBy)}, history.Moment{After: at(endedAfter), By: at(endedBy)}
		copy(h.Hash[:], hash)
		if mode == driver.Shared.String() {
			h.Mode = driver.Shared
		}
		holds = append(holds, h)
	}
	return holds, rows.Err()
}

func micros(t time.Time) sql.NullInt64 {
	return sql.NullInt64{Int64: t.UnixMicro(), Valid: !t.IsZero()}
}

func at(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return time.UnixMicro(n.Int64)
}
