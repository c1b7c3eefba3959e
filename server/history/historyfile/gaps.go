package historyfile

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

// KeepGaps implements history.Storage.
func (s *storage) KeepGaps(ctx context.Context, gaps []history.Gap, until time.Time) error {
	if err := s.isThere(); err != nil {
		return s.explain(err)
	}
	return s.explain(s.change(ctx, func(tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM gaps; DELETE FROM until"); err != nil {
			return err
		}
		for _, g := range gaps {
			_, err := tx.ExecContext(ctx, "INSERT INTO gaps (began, ended, cause) VALUES (?, ?, ?)", g.From.UnixMicro(), g.To.UnixMicro(), string(g.Cause))
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO until (at) VALUES (?)", until.UnixMicro())
		return err
	}))
}

// Gaps implements history.Storage.
func (s *storage) Gaps(ctx context.Context) (gaps []history.Gap, until time.Time, err error) {
	var at int64
	switch err := s.db.QueryRowContext(ctx, "SELECT at FROM until").Scan(&at); {
	case errors.Is(err, sql.ErrNoRows):
		return nil, time.Time{}, nil
	case err != nil:
		return nil, time.Time{}, s.explain(err)
	}
	err = s.each(ctx, func(row row) error {
		var began, ended int64
		var g history.Gap
		err := row.Scan(&began, &ended, &g.Cause)
		g.From, g.To = time.UnixMicro(began), time.UnixMicro(ended)
		gaps = append(gaps, g)
		return err
	}, "SELECT began, ended, cause FROM gaps ORDER BY began DESC")
	return gaps, time.UnixMicro(at), err
}
