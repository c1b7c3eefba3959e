package historyfile

import (
	"context"
	"database/sql"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/holdfast-go/holdfast/server/history"
)

const (
	insertEvent = `INSERT INTO events
		(at, within, kind, loss, resource, ref, token, mode, most, owner, host, comment, held, renewed_ago, caller, reason)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	openHold  = `INSERT OR REPLACE INTO holds (number, resource, hash, left) VALUES (?, ?, ?, ?)`
	closeHold = `DELETE FROM holds WHERE resource = ? AND hash = ?`
)

// Append implements history.Storage.
func (s *storage) Append(ctx context.Context, events []history.Event) (time.Time, error) {
	err := s.isThere()
	if err == nil {
		err = s.trim(ctx)
	}
	if err == nil && len(events) > 0 {
		err = s.insert(ctx, events)
		if isCode(err, sqlite3.SQLITE_FULL) {
			// The file is as large as it may get, unless the disk is full.
			if err = s.remove(ctx, "number IN (SELECT number FROM events ORDER BY number LIMIT ?)", 8*trimmed); err == nil {
				err = s.insert(ctx, events)
			}
		}
	}
	return time.UnixMicro(s.since.Load()), s.explain(err)
}

func (s *storage) insert(ctx context.Context, events []history.Event) error {
	return s.change(ctx, func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, insertEvent)
		if err != nil {
			return err
		}
		defer insert.Close()
		for _, e := range events {
			mode := e.Mode.String()
			loss := 0
			if e.Kind.Loss() {
				loss = 1
			}
			done, err := insert.ExecContext(ctx, e.At.UnixMicro(), micros(e.Within), string(e.Kind), loss, e.Resource, e.Ref,
				int64(e.Token), mode, e.Limit, e.Owner, e.Host, e.Comment, micros(e.Held), micros(e.RenewedAgo), e.Caller, e.Reason)
			if err != nil {
				return err
			}
			if !e.Kind.Begins() {
				if _, err := tx.ExecContext(ctx, closeHold, e.Resource, e.Hash[:]); err != nil {
					return err
				}
				continue
			}
			number, err := done.LastInsertId()
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, openHold, number, e.Resource, e.Hash[:], leftOf(e.Left)); err != nil {
				return err
			}
		}
		return nil
	})
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

// trim removes what is too old, and makes room if a tenth of it or less is left.
func (s *storage) trim(ctx context.Context) error {
	if s.since.Load() == 0 {
		var since int64
		if err := s.db.QueryRowContext(ctx, "SELECT since FROM kept").Scan(&since); err != nil {
			return err
		}
		s.since.Store(since)
	}
	oldest := time.Now().Add(-s.keep).UnixMicro()
	for {
		var first sql.NullInt64
		if err := s.db.QueryRowContext(ctx, "SELECT min(at) FROM events").Scan(&first); err != nil {
			return err
		}
		if !first.Valid || first.Int64 >= oldest {
			break
		}
		if err := s.remove(ctx, "number IN (SELECT number FROM events WHERE at < ? ORDER BY at LIMIT ?)", oldest, trimmed); err != nil {
			return err
		}
	}
	for {
		var used, free int64
		err := s.db.QueryRowContext(ctx, "SELECT p.page_count, f.freelist_count FROM pragma_page_count p, pragma_freelist_count f").Scan(&used, &free)
		if err != nil {
			return err
		}
		if used-free <= s.pages*9/10 {
			return nil
		}
		if err := s.remove(ctx, "number IN (SELECT number FROM events ORDER BY number LIMIT ?)", trimmed); err != nil {
			return err
		}
	}
}

// remove removes the events that the condition chooses, and forgets the holds that began with
// them. What is kept begins after them.
func (s *storage) remove(ctx context.Context, which string, args ...any) error {
	since := s.since.Load()
	err := s.change(ctx, func(tx *sql.Tx) error {
		begun, last, err := removed(ctx, tx, which, args)
		if err != nil {
			return err
		}
		for _, number := range begun {
			if _, err := tx.ExecContext(ctx, "DELETE FROM holds WHERE number = ?", number); err != nil {
				return err
			}
		}
		since = max(since, last)
		_, err = tx.ExecContext(ctx, "UPDATE kept SET since = ?", since)
		return err
	})
	if err == nil {
		s.since.Store(since)
	}
	return err
}

// removed removes events. It returns the numbers of those with which holds began, and the
// time of the newest.
func removed(ctx context.Context, tx *sql.Tx, which string, args []any) (begun []int64, last int64, err error) {
	rows, err := tx.QueryContext(ctx, "DELETE FROM events WHERE "+which+" RETURNING at, kind, number", args...)
	if err != nil {
		return nil, 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var at, number int64
		var kind history.Kind
		if err := rows.Scan(&at, &kind, &number); err != nil {
			return nil, 0, err
		}
		last = max(last, at)
		if kind.Begins() {
			begun = append(begun, number)
		}
	}
	return begun, last, rows.Err()
}
