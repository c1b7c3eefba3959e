package historyfile

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/holdfast-go/holdfast/server/history"
)

const (
	// trimmed is how many holds are removed at once, and atOnce how many are added before there
	// is a look whether there is room for more.
	trimmed, atOnce = 2000, 100
	// rowBytes is about what a hold takes besides its names, and fullBytes what the largest do.
	rowBytes, fullBytes = 200, 4096
)

const (
	removeOld = `DELETE FROM holds WHERE number IN (SELECT number FROM holds WHERE ended_by < ? LIMIT ?)`
	usedPages = `SELECT p.page_count - f.freelist_count FROM pragma_page_count p, pragma_freelist_count f`
	// mostOf is which resource of which caller has most, and by how much more than the next of
	// the resources and of the callers.
	mostOf = `WITH
		callers AS (SELECT caller, bytes FROM shares WHERE resource = '' ORDER BY bytes DESC LIMIT 2),
		resources AS (SELECT resource, bytes FROM shares WHERE resource <> '' AND caller = (SELECT caller FROM callers LIMIT 1)
			ORDER BY bytes DESC LIMIT 2)
		SELECT (SELECT caller FROM callers LIMIT 1), (SELECT resource FROM resources LIMIT 1), min(
			(SELECT max(bytes) - iif(count(*) = 2, min(bytes), 0) FROM callers),
			(SELECT max(bytes) - iif(count(*) = 2, min(bytes), 0) FROM resources))`
	removeMost = `DELETE FROM holds WHERE number IN (SELECT number FROM holds WHERE caller = ? AND resource = ? ORDER BY number LIMIT ?)`
	// removeEach removes the oldest hold of each of the resources that have about most.
	removeEach = `DELETE FROM holds WHERE number IN (SELECT (SELECT min(number) FROM holds h WHERE h.caller = s.caller AND h.resource = s.resource)
		FROM shares s WHERE s.caller = ?1 AND s.resource <> '' AND 2 * s.bytes > (SELECT max(bytes) FROM shares WHERE caller = ?1 AND resource <> '')
		ORDER BY s.bytes DESC LIMIT ?2)`
	// A hold whose beginning was removed comes back with its end.
	writeHold = `INSERT INTO holds (` + columns + `, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (number) DO UPDATE SET ended_after = excluded.ended_after, ended_by = excluded.ended_by, how = excluded.how,
		forced_by = excluded.forced_by, reason = excluded.reason`
)

// Write implements history.Storage.
func (s *storage) Write(ctx context.Context, b history.Batch) (bounds history.Bounds, err error) {
	gaps, err := json.Marshal(b.Gaps)
	if err == nil {
		err = s.isThere()
	}
	if err == nil {
		err = s.change(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, removeOld, time.Now().Add(-s.keep).UnixMicro(), trimmed); err != nil {
				return err
			}
			write, err := tx.PrepareContext(ctx, writeHold)
			if err != nil {
				return err
			}
			defer write.Close()
			for i, h := range b.Holds {
				if i%atOnce == 0 {
					if err := s.makeRoom(ctx, tx); err != nil {
						return err
					}
				}
				_, err := write.ExecContext(ctx, h.Number, h.Resource, h.Ref, int64(h.Token), h.Mode.String(), h.Limit, h.Owner, h.Host, h.Comment,
					micros(h.Began.After), micros(h.Began.By), micros(h.Ended.After), micros(h.Ended.By), string(h.How), h.By, h.Reason, h.Caller, h.Hash[:],
					rowBytes+3*len(h.Resource)+len(h.Owner)+len(h.Host)+len(h.Comment))
				if err != nil {
					return err
				}
			}
			if _, err := tx.ExecContext(ctx, "UPDATE kept SET looked = coalesce(?, looked), gaps = ?", micros(b.Looked), string(gaps)); err != nil {
				return err
			}
			bounds, err = s.bounds(ctx, tx)
			return err
		})
	}
	return bounds, s.explain(err)
}

// makeRoom removes holds until a tenth of the file is free: the oldest of those who have most, as
// many as put them not below the next.
func (s *storage) makeRoom(ctx context.Context, tx *sql.Tx) error {
	for {
		var used, excess int64
		if err := tx.QueryRowContext(ctx, usedPages).Scan(&used); err != nil || used <= s.pages*9/10 {
			return err
		}
		var caller, resource string
		if err := tx.QueryRowContext(ctx, mostOf).Scan(&caller, &resource, &excess); err != nil {
			return err
		}
		var err error
		if n := min(excess/fullBytes, trimmed); n > 0 {
			_, err = tx.ExecContext(ctx, removeMost, caller, resource, n)
		} else {
			_, err = tx.ExecContext(ctx, removeEach, caller, atOnce)
		}
		if err != nil {
			return err
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

// errReplaced: SQLite would go on with a file that nobody finds, and with its journal beside
// the file that has the name now, perhaps the history of another server.
var errReplaced = errors.New("somebody has removed or replaced it; start the server again, which makes a new one")

// isThere returns an error unless the file is at its name still.
func (s *storage) isThere() error {
	info, err := os.Lstat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(s.was, info) {
		return errReplaced
	}
	return err
}
