package historyfile

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

const (
	// trimmed is how many holds that are too old are removed at once, and atOnce how many holds
	// are added, or removed for others, before there is a look whether there is room.
	trimmed, atOnce = 2000, 50

	removeOld = `DELETE FROM holds WHERE number IN (SELECT number FROM holds WHERE ended < ? LIMIT ?)`
	usedPages = `SELECT p.page_count - f.freelist_count FROM pragma_page_count p, pragma_freelist_count f`
	// removeMost removes the oldest hold of the largest resource of the largest share.
	removeMost = `DELETE FROM holds WHERE number = (SELECT min(number) FROM holds WHERE (share, resource) = (
		SELECT share, resource FROM shares WHERE resource <> '' AND share = (SELECT share FROM shares WHERE resource = '' ORDER BY bytes DESC LIMIT 1)
		ORDER BY bytes DESC LIMIT 1))`
	// A hold whose beginning was removed comes back with its end.
	writeHold = `INSERT INTO holds VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, 200 + 2 * octet_length(?3) + octet_length(?7))
		ON CONFLICT (number) DO UPDATE SET ended = excluded.ended, how = excluded.how, hold = excluded.hold`
	bounds = `SELECT max(since, ?1), iif(removed > max(since, ?1), removed, 0) FROM kept`
)

// Load implements history.Storage.
func (s *storage) Load(ctx context.Context) (saved history.Saved, err error) {
	var looks string
	err = s.change(ctx, func(tx *sql.Tx) error {
		if saved.Bounds, err = s.bounds(ctx, tx); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT looks, (SELECT coalesce(max(number), 0) FROM holds) FROM kept").Scan(&looks, &saved.Last)
	})
	if err == nil {
		err = json.Unmarshal([]byte(looks), &saved.Looks)
	}
	if err == nil {
		saved.Open, err = s.holds(ctx, "ended IS NULL")
	}
	return saved, s.explain(err)
}

func (s *storage) bounds(ctx context.Context, tx *sql.Tx) (b history.Bounds, err error) {
	var since, removed int64
	err = tx.QueryRowContext(ctx, bounds, time.Now().Add(-s.keep).UnixMicro()).Scan(&since, &removed)
	if b.Since = time.UnixMicro(since); removed > 0 {
		b.Removed = time.UnixMicro(removed)
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
		where, args, order = where+" AND how IN ('forced', 'lost') AND ended >= ?", append(args, q.Since.UnixMicro()), "ended"
	case !q.Since.IsZero():
		where, args = where+" AND (ended >= ? OR ended IS NULL)", append(args, q.Since.UnixMicro())
	}
	holds, err := s.holds(ctx, where+" ORDER BY "+order+" DESC LIMIT ?", append(args, q.Limit)...)
	return holds, s.explain(err)
}

func (s *storage) holds(ctx context.Context, where string, args ...any) (holds []history.Hold, err error) {
	rows, err := s.db.QueryContext(ctx, "SELECT hold FROM holds WHERE "+where, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.RawBytes
		var h history.Hold
		if err = rows.Scan(&text); err == nil {
			err = json.Unmarshal(text, &h)
		}
		if err != nil {
			return nil, err
		}
		holds = append(holds, h)
	}
	return holds, rows.Err()
}

// Write implements history.Storage.
func (s *storage) Write(ctx context.Context, holds []history.Hold, looks *history.Looks) (b history.Bounds, err error) {
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(s.was, info) {
		err = errReplaced
	}
	if err == nil {
		err = s.change(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, removeOld, time.Now().Add(-s.keep).UnixMicro(), trimmed); err != nil {
				return err
			}
			if err := s.add(ctx, tx, holds); err != nil {
				return err
			}
			if looks != nil {
				text, err := json.Marshal(looks)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, "UPDATE kept SET looks = ?", string(text)); err != nil {
					return err
				}
			}
			b, err = s.bounds(ctx, tx)
			return err
		})
	}
	return b, s.explain(err)
}

// add adds the holds, or puts them in the place of those with the same number.
func (s *storage) add(ctx context.Context, tx *sql.Tx, holds []history.Hold) error {
	write, err := tx.PrepareContext(ctx, writeHold)
	if err != nil {
		return err
	}
	defer write.Close()
	for i, h := range holds {
		if i%atOnce == 0 {
			if err := s.makeRoom(ctx, tx); err != nil {
				return err
			}
		}
		text, err := json.Marshal(h)
		if err != nil {
			return err
		}
		ended := sql.NullInt64{Int64: h.Ended.By.UnixMicro(), Valid: h.How != ""}
		if _, err := write.ExecContext(ctx, h.Number, h.Share, h.Resource, h.Began.By.UnixMicro(), ended, string(h.How), string(text)); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom removes holds until a tenth of the file is free.
func (s *storage) makeRoom(ctx context.Context, tx *sql.Tx) error {
	for {
		var used int64
		if err := tx.QueryRowContext(ctx, usedPages).Scan(&used); err != nil || used <= s.pages*9/10 {
			return err
		}
		for range atOnce {
			if _, err := tx.ExecContext(ctx, removeMost); err != nil {
				return err
			}
		}
	}
}

// change makes a transaction of f.
func (s *storage) change(ctx context.Context, f func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the caller needs the error of f
		return err
	}
	return tx.Commit()
}
